"""The style sheet of a report's page: light or dark as the reader likes it, one column on a phone."""

STYLE = """
:root{color-scheme:light dark;--back:#f5f6f8;--card:#fff;--ink:#1b2230;--soft:#5d6878;--edge:#e1e5eb;--grid:#e8ebf0;
--blue:#2f6fde;--green:#1f9d72;--amber:#d98a0b;--red:#d6453d;--violet:#7d55d9;--hover:rgba(30,50,90,.07)}
@media (prefers-color-scheme:dark){:root{--back:#11151c;--card:#1a202a;--ink:#e6eaf0;--soft:#97a3b4;--edge:#2a3340;
--grid:#283140;--blue:#6aa2ff;--green:#3fc795;--amber:#f0b14a;--red:#f27970;--violet:#ab8df5;
--hover:rgba(200,220,255,.08)}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:1.6rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:0 0 2px}
h3{font-size:.9rem;margin:0 0 6px}
p{margin:0}
.soft{color:var(--soft);font-size:.87rem}
header{margin-bottom:20px}
header p{margin-top:4px;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:12px;margin-bottom:16px}
.tile,.card{background:var(--card);border:1px solid var(--edge);border-radius:12px}
.tile{padding:12px 14px;min-width:0}
.tile b{display:block;font-size:1.5rem;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:.84rem}
.tile.bad b{color:var(--red)}
.card{padding:16px 18px 18px;margin-bottom:16px;min-width:0}
.three{display:grid;grid-template-columns:repeat(auto-fit,minmax(270px,1fr));gap:18px 26px;margin-top:12px}
.three>div{min-width:0}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:.84rem;color:var(--soft);margin:6px 0 12px}
.key{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}
.plot{position:relative;padding:0 6px 24px 60px}
.plot svg{display:block;width:100%;height:210px;overflow:visible}
.three .plot svg{height:140px}
.left span,.below span{position:absolute;font-size:.75rem;line-height:1;color:var(--soft);white-space:nowrap;
font-variant-numeric:tabular-nums}
.left{position:absolute;left:0;top:0;bottom:24px;width:52px}
.left span{right:0;transform:translateY(-50%)}
.below{position:absolute;left:60px;right:6px;bottom:0;height:16px}
.below span{transform:translateX(-50%);top:4px}
.below span:first-child{transform:translateX(-20%)}
.grid{stroke:var(--grid);stroke-width:1;vector-effect:non-scaling-stroke}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round;vector-effect:non-scaling-stroke}
.area{opacity:.16;stroke:none}
.hover{fill:transparent}
.hover:hover{fill:var(--hover)}
.blue{--own:var(--blue)}.green{--own:var(--green)}.amber{--own:var(--amber)}.red{--own:var(--red)}
.violet{--own:var(--violet)}
.line{stroke:var(--own)}.area,.column{fill:var(--own)}.key,.bar{background:var(--own)}
.bars{list-style:none;margin:8px 0 0;padding:0}
.bars li{display:grid;grid-template-columns:minmax(40px,max-content) 1fr minmax(70px,max-content);gap:10px;
align-items:center;padding:2px 0}
.bars .name{color:var(--soft);font-size:.87rem}
.bars .value{text-align:right;font-variant-numeric:tabular-nums;font-size:.87rem}
.track{display:block;background:var(--grid);border-radius:5px;height:12px;overflow:hidden}
.bar{display:block;height:100%;border-radius:5px}
.wide{overflow-x:auto;margin-top:10px}
table{border-collapse:collapse;width:100%;font-size:.87rem;font-variant-numeric:tabular-nums}
th,td{padding:6px 10px;border-top:1px solid var(--edge);text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:550;border-top:0;white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap}
td.time{white-space:nowrap}
td.long{min-width:240px;max-width:520px;overflow-wrap:anywhere}
td.name{white-space:nowrap}
td .track{margin-top:6px;height:6px}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:.82rem;margin-top:20px}
@media (max-width:600px){main{padding:18px 12px 32px}h1{font-size:1.3rem}.card{padding:14px 12px}
.tiles{grid-template-columns:repeat(2,1fr)}.tile b{font-size:1.25rem}.plot{padding-left:52px}.left{width:46px}
.below{left:52px}.plot svg{height:180px}.below span:nth-child(even){display:none}
td code{white-space:nowrap}td.long code{white-space:normal}}
.three .below span:nth-child(even){display:none}
@media print{body{background:#fff}.card,.tile{break-inside:avoid}}
"""
