#include "tool/report/html_page.h"

#include "tool/report/html_text.h"
#include "tool/report/plot.h"
#include "fmt/format.h"
#include "takt/version.h"

namespace takt::tool {
namespace {

// Colours of Okabe and Ito (2008), which colour-blind readers can distinguish; darker on white and lighter on black.
constexpr std::string_view kStyleSheet = R"css(
:root { color-scheme: light dark; --paper: #fff; --card: #fafafa; --ink: #1b1b1f; --soft: #5c5f66; --grid: #e3e4e8;
  --best: #e3f3ea; --c0: #0072b2; --c1: #d55e00; --c2: #008f68; --c3: #b4598c; --c4: #b97a00; --c5: #2f9fd8; --c6: #444; }
@media (prefers-color-scheme: dark) { :root { --paper: #131417; --card: #1b1c20; --ink: #e9e9ec; --soft: #a2a5ad;
  --grid: #303238; --best: #17372a; --c0: #4ba6e3; --c1: #f5853f; --c2: #2cc79b; --c3: #e39bc6; --c4: #f0b429;
  --c5: #93d3f5; --c6: #d8d8d8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1240px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 8px; } h2 { font-size: 18px; margin: 32px 0 8px; }
p { margin: 6px 0; max-width: 80ch; } .soft { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 12px 0; }
dt { color: var(--soft); } dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: 4px 10px; text-align: right; } th { font-weight: 600; color: var(--soft); }
th.text, td.text { text-align: left; } td.text:first-child, td.text:last-child { white-space: normal; min-width: 14em; } thead tr:last-child th { border-bottom: 1px solid var(--soft); }
th.group { text-align: center; border-bottom: 1px solid var(--grid); }
tbody tr.new td { border-top: 1px solid var(--grid); } td.best { background: var(--best); font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 12px 12px 4px; background: var(--card); border: 1px solid var(--grid); border-radius: 8px;
  position: relative; }
figcaption { font-weight: 600; margin: 0 0 4px 4px; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums; } svg text.label { fill: var(--ink); }
.grid { stroke: var(--grid); } .axis { stroke: var(--soft); } .cursor { stroke: var(--soft); visibility: hidden; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .mark { stroke: var(--card); stroke-width: 1; }
.cloud { stroke: none; fill-opacity: .45; }
.legend { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: 4px 8px; padding: 8px 0;
  background: var(--paper); }
.legend button, .loads button { font: inherit; color: inherit; background: none; border: 1px solid var(--grid);
  border-radius: 6px; padding: 2px 10px; cursor: pointer; display: inline-flex; align-items: center; gap: 8px; }
.legend button.off { opacity: .4; } .legend svg { width: 28px; height: 10px; }
.loads { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 8px 0; }
.loads button.on { border-color: var(--ink); font-weight: 600; }
.tip { position: absolute; pointer-events: none; background: var(--paper); border: 1px solid var(--soft);
  border-radius: 6px; padding: 4px 8px; font-size: 13px; font-variant-numeric: tabular-nums; display: none;
  white-space: nowrap; z-index: 2; }
.tip i { display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin-right: 6px; }
@media print { .legend { position: static; } }
)css";

// Shows values under the pointer, toggles lines, and shows one load at a time. Without the script the page shows all.
constexpr std::string_view kScript = R"js(
const number = v => v === 0 ? '0' : Math.abs(v) >= 100 ? Math.round(v).toLocaleString('en') : v.toPrecision(3);
for (const figure of document.querySelectorAll('figure')) {
  const svg = figure.querySelector('svg'), cursor = svg.querySelector('.cursor');
  const data = JSON.parse(figure.querySelector('script').textContent);
  const [least, most, from, to, log] = data.x;
  const tip = figure.appendChild(document.createElement('div'));
  tip.className = 'tip';
  const valueAt = ({points, cloud}, x) => {
    let i = 0;
    while (i + 2 < points.length && points[i + 2] <= x) i += 2;
    if (x < points[0] || i + 2 >= points.length || data.stairs || cloud) return points[i + 1];
    const share = (x - points[i]) / (points[i + 2] - points[i] || 1);
    return points[i + 1] + share * (points[i + 3] - points[i + 1]);
  };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) * 560 / box.width;
    const share = (px - from) / (to - from);
    if (share < 0 || share > 1) return hide();
    const x = log ? least * (most / least) ** share : least + share * (most - least);
    for (const [name, value] of [['x1', px], ['x2', px], ['y1', data.y[2]], ['y2', data.y[3]]]) {
      cursor.setAttribute(name, value);
    }
    cursor.style.visibility = 'visible';
    tip.replaceChildren(data.xLabel + ': ' + number(x));
    for (const line of data.lines) {
      if (!line.points.length || document.body.classList.contains('h' + line.style)) continue;
      const row = tip.appendChild(document.createElement('div')), dot = document.createElement('i');
      dot.style.background = `var(--c${line.style % 7})`;
      row.append(dot, line.name + ': ' + number(valueAt(line, x)));
    }
    tip.style.display = 'block';
    const left = event.clientX - figure.getBoundingClientRect().left;
    tip.style.left = (left + 16 + tip.offsetWidth > figure.clientWidth ? left - 12 - tip.offsetWidth : left + 16) + 'px';
    tip.style.top = event.clientY - figure.getBoundingClientRect().top + 12 + 'px';
  });
  const hide = () => { tip.style.display = 'none'; cursor.style.visibility = 'hidden'; };
  svg.addEventListener('pointerleave', hide);
}
for (const button of document.querySelectorAll('.legend button')) {
  button.addEventListener('click', () => {
    button.classList.toggle('off', document.body.classList.toggle('h' + button.dataset.style));
  });
}
const loads = [...document.querySelectorAll('.loads button')], sections = [...document.querySelectorAll('section.load')];
const show = chosen => {
  loads.forEach((button, i) => button.classList.toggle('on', i === chosen));
  sections.forEach((section, i) => section.hidden = i !== chosen);
};
loads.forEach((button, i) => button.addEventListener('click', () => show(i)));
if (loads.length) show(Number(document.querySelector('.loads').dataset.first));
)js";

// Seven colours, solid first, then dashed, then dotted.
std::string LineStyles() {
  constexpr std::size_t kColours = 7;
  constexpr const char* kDashes[] = {"none", "7 4", "2 3"};
  std::string css;
  for (std::size_t i = 0; i < kLineStyles; ++i) {
    css += fmt::format(
        ".line.s{0} {{ stroke: var(--c{1}); stroke-dasharray: {2}; }} .mark.s{0} {{ fill: var(--c{1}); }} "
        ".h{0} figure .s{0} {{ display: none; }}\n",
        i, i % kColours, kDashes[i / kColours]);
  }
  return css;
}

}  // namespace

std::string LegendButton(std::size_t style, std::string_view label) {
  return fmt::format(
      "<button data-style={0} title='show or hide'><svg viewBox='0 0 28 10'><path class='line s{0}' "
      "d='M0 5H28'/></svg>{1}</button>",
      style % kLineStyles, HtmlText(label));
}

std::string HtmlPage(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>\n"
      "<title>takt: {}</title>\n<style>{}{}</style></head><body>\n{}<p class=soft>takt {}</p>\n"
      "<script>{}</script></body></html>\n",
      HtmlText(title), kStyleSheet, LineStyles(), body, TAKT_VERSION, kScript);
}

}  // namespace takt::tool
