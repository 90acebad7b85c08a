"""The landing page's one style sheet: light and dark, phone and wall, no font or image from anywhere else.

The phase colours are a colour-blind-safe set (after Okabe and Ito), with hatch-free neighbours that differ in lightness too;
unattributed is grey, because it is the absence of knowledge.
"""

STYLE = (
    """
:root{color-scheme:light dark;--bg:#fff;--fg:#16191d;--quiet:#5b6470;--line:#d9dde3;--card:#f6f7f9;--bad:#b3261e;--good:#1a7f37;
--queue:#e69f00;--prefill:#56b4e9;--first_token:#cc79a7;--unattributed:#a3a9b2;--decode:#009e73;--stream:#f0e442;--on:#101214}
@media (prefers-color-scheme:dark){:root{--bg:#0f1215;--fg:#e8eaed;--quiet:#9aa4b0;--line:#2c333b;--card:#171b20;--bad:#ff8a80;--good:#6fdd8b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1080px;padding:20px 16px 48px;background:var(--bg);color:var(--fg);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:20px;margin:0}h2{font-size:16px;margin:30px 0 8px}p{margin:6px 0}
header{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:baseline;justify-content:space-between}
.quiet,small{color:var(--quiet);font-weight:400}
a{color:inherit}nav a{margin-right:14px}
.state{font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}
.plain{border:1px solid var(--line);background:var(--card);border-radius:8px;padding:14px 16px}
svg{display:block;width:100%;height:34px;margin-bottom:14px}svg text{fill:var(--on);font-size:14px}
.lane{font-weight:600;margin:12px 0 4px}.lane .quiet{margin-left:6px}
.legend span{display:inline-block;margin:2px 14px 2px 0;white-space:nowrap}
.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px;vertical-align:-1px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}thead th{font-weight:500;color:var(--quiet)}
td.words{white-space:normal;text-align:left;min-width:11em}
@media (max-width:600px){svg text{display:none}th,td{padding:5px 6px}}
""".strip()
    + "".join(
        f".p-{phase}{{fill:var(--{phase});background:var(--{phase})}}"
        for phase in ("queue", "prefill", "first_token", "unattributed", "decode", "stream")
    )
)
