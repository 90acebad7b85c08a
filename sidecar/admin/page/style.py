"""The style sheet of all pages: light and dark scheme, phone to wall screen, no font or image from elsewhere.

The name of a phase stands beside or on every colour of one. Nothing scrolls sideways: where room is short, words break and the
small print of tables gets a line of its own.
"""

from sidecar.admin.page.phase_colours import PHASE_COLOURS, text_on


STYLE = (
    """
:root{color-scheme:light dark;--bg:#fff;--fg:#16191d;--quiet:#5b6470;--line:#d9dde3;--card:#f6f7f9;--bad:#b3261e;--good:#1a7f37}
@media (prefers-color-scheme:dark){:root{--bg:#0f1215;--fg:#e8eaed;--quiet:#9aa4b0;--line:#2c333b;--card:#171b20;--bad:#ff8a80;--good:#6fdd8b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:20px 16px 48px;background:var(--bg);color:var(--fg);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;overflow-anchor:none;overflow-wrap:anywhere}
h1{font-size:22px;line-height:1.3;margin:0}h2{font-size:16px;margin:30px 0 8px}h3{font-size:15px;margin:0 0 6px}h4{font-size:13px;margin:10px 0 4px}
p{margin:6px 0}ul,ol{margin:4px 0;padding-left:20px}li{margin:3px 0}
header{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:baseline;justify-content:space-between}
.name{font-weight:600;margin:0}
.quiet,small{color:var(--quiet);font-weight:400}small{font-size:12px}
a{color:inherit}nav a{margin-right:14px}
code{font:13px/1.45 ui-monospace,"DejaVu Sans Mono",monospace}
.state{font-weight:600;white-space:nowrap}.good{color:var(--good)}.bad{color:var(--bad)}
.plain,.card{border:1px solid var(--line);background:var(--card);border-radius:8px;padding:14px 16px}
.card{margin-top:10px}details.card{padding:8px 16px}details.card summary{color:var(--fg);font-weight:600}
#headline{margin-top:14px;padding:14px 16px;border:1px solid var(--line);border-left:6px solid var(--line);border-radius:8px;background:var(--card);color:var(--fg)}
#headline.bad{border-left-color:var(--bad)}#headline.good{border-left-color:var(--good)}
.chip{display:inline-block;padding:0 9px;border-radius:5px}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:10px 24px}
.two>*{min-width:0}.two .card{margin-top:0}
.of-lane{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:4px 24px;margin-bottom:22px}
.of-lane h3{grid-column:1/-1;margin:8px 0 0;border-bottom:1px solid var(--line)}
svg{display:block;width:100%;height:34px;margin-bottom:10px}svg text{font-size:14px}svg.thin{height:12px;margin-bottom:6px}
p.lane,p.thin{margin:6px 0 3px}p.lane{font-weight:600}p.thin{font-size:13px}p .quiet{margin-left:4px}
.legend span{display:inline-block;margin:2px 14px 2px 0;white-space:nowrap}
i[class^=p-]{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px;vertical-align:-1px}
svg.spark{height:26px;margin:0}.spark path{fill:none;stroke:var(--fg);stroke-width:2;stroke-linecap:round;vector-effect:non-scaling-stroke}
.spark path.since{stroke:var(--bad);stroke-width:1.5}
.sparks{display:grid;grid-template-columns:minmax(250px,max-content) minmax(0,1fr);gap:4px 16px;align-items:center}.sparks p{margin:0}
dl{margin:8px 0 0;display:grid;grid-template-columns:1fr 1fr;gap:4px 28px}dl div{display:grid;grid-template-columns:5.8em minmax(0,1fr);min-width:0}
dt{color:var(--quiet)}dd{margin:0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
th,td{padding:5px 10px;border-bottom:1px solid var(--line);text-align:right;font-weight:400;vertical-align:baseline}
th:first-child,td:first-child{text-align:left;padding-left:0}th:last-child,td:last-child{padding-right:0}
td,thead th{overflow-wrap:normal}tbody th{min-width:6.5em}
thead th{font-weight:500;color:var(--quiet)}th small,td small{display:block}
.beside small{display:inline}
.ledgers td,.ledgers th{text-align:left;vertical-align:top}.ledgers td:last-child,.ledgers th:last-child{width:50%}.ledgers svg{margin-top:4px}
summary{cursor:pointer;color:var(--quiet);padding:4px 0}
.folds{margin-top:26px}.folds>summary{color:var(--fg)}.folds>summary h2{display:inline;margin:0}.folds[open]>summary{margin-bottom:6px}
footer{margin-top:36px;color:var(--quiet)}#stale:empty{display:none}#stale{color:var(--bad)}
@media (max-width:960px){.of-lane,dl,.sparks{grid-template-columns:minmax(0,1fr)}}
@media (max-width:600px){.folds{margin-top:6px}svg text{display:none}th,td{padding:5px 4px;font-size:13px}.card,.plain,#headline{padding:10px 12px}h1{font-size:19px}dl{font-size:14px;line-height:1.35;gap:3px}nav a{margin-right:10px}.ledgers td:last-child{width:44%}}
@media (max-width:380px){body{padding:16px 10px 40px}.card,.plain{padding:8px}th,td{padding:4px 2px;font-size:12px}tbody th{min-width:5em}i[class^=p-]{margin-right:3px}}
""".strip()
    + "".join(
        f".p-{phase}{{fill:{colour};background:{colour};color:{text_on(colour)}}}.p-{phase}+text{{fill:{text_on(colour)}}}"
        for phase, colour in PHASE_COLOURS.items()
    )
)
