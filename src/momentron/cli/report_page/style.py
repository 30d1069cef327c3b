"""The look of a report: one column, light and dark, readable on a phone."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1b1b; --soft: #595959; --paper: #ffffff; --panel: #f5f5f2; --line: #d9d9d4;
  --c0: #0072B2; --c1: #D55E00; --c2: #009E73; --c3: #CC79A7; --c4: #E69F00; --c5: #56B4E9;
  --c6: #8a8000; --c7: #555555;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #ececec; --soft: #b0b0b0; --paper: #141414; --panel: #1f1f1f; --line: #3a3a3a;
    --c0: #56B4E9; --c1: #FF8C42; --c2: #2ec9a0; --c3: #e5a3c8; --c4: #F2B632; --c5: #9ad4f5;
    --c6: #F0E442; --c7: #bdbdbd;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
.kicker { color: var(--soft); margin: 0; overflow-wrap: anywhere; }
h1 { font-size: 2.2rem; line-height: 1.15; margin: 0.2rem 0 0.4rem; }
.lead { font-size: 1.15rem; margin: 0; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 0.6rem; padding-top: 0.8rem;
  border-top: 1px solid var(--line); }
p { margin: 0.6rem 0; overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: 0.9rem; }
.number { font-size: 1.15rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
figure { margin: 0.8rem 0; }
.picture { display: block; width: 100%; max-width: 36rem; height: auto; font-size: 12px; }
.picture text { fill: var(--ink); }
.frame { fill: none; stroke: var(--line); }
.grid { stroke: var(--line); stroke-width: 0.6; }
.boundary { stroke: var(--ink); stroke-width: 1.6; }
.margin { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 5 4; }
.wrong { fill: var(--c1); opacity: 0.12; }
.ring { fill: none; stroke: var(--ink); stroke-width: 1.1; }
.meeting { stroke: var(--ink); stroke-width: 2.6; }
.point { stroke: var(--paper); stroke-width: 0.4; }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); }
.c4 { fill: var(--c4); } .c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--c7); }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; font-size: 0.9rem; margin: 0.4rem 0; }
.entry { display: inline-flex; align-items: center; gap: 0.35rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; }
th, td { text-align: left; padding: 0.25rem 1rem 0.25rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
.strength { display: block; height: 0.6rem; min-width: 1px; background: var(--c0);
  border-radius: 1px; }
td:has(.strength) { width: 9rem; min-width: 5rem; }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: 0.25rem 1rem;
  margin: 0.8rem 0; font-size: 0.92rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--panel); padding: 0.8rem 1rem; border-radius: 6px; font-size: 0.85rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
  font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
a { color: var(--c0); }
a.button { display: inline-block; padding: 0.45rem 0.9rem; border: 1px solid currentColor;
  border-radius: 6px; text-decoration: none; }
@media (max-width: 30rem) {
  main { padding-top: 1.2rem; }
  h1 { font-size: 1.8rem; }
  .picture { font-size: 14px; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 0.5rem; }
}
@media print {
  main { max-width: none; }
  section { break-inside: avoid; }
  .button { display: none; }
}
"""
