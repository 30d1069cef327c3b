"""The door: numbers become float64 here, unchanged, or not at all.

Certificates and proofs speak of the data as float64, so every way in asks `as_exact`.

- Numbers in memory must be float64 values: integers beyond 2⁵³, decimals, fractions and long
  doubles are refused where float64 would round them.
- Text is read as the nearest float64, and refused where that moves the number by more than half a
  unit of its last digit. So a whole number survives exactly or is refused; numbers of up to 15
  digits pass, and so does whatever was printed from a float64, with however many digits; and two
  numbers with the same last decimal place never become one.
- Entries of a sparse matrix that share a place are summed; the sum must be exact in the type of the
  matrix, small integers in 64 bits.
- Tensors of torch keep their values: on any device, of any type, with or without gradients.
- A float may be read as the shortest decimal that prints as it (`decimals`), which is how it was
  written; then Decimal("0.1") passes, and a float32 of 0.1 is 0.1.
- Dates, complex numbers and masked entries are refused.
"""
