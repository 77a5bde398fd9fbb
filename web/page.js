'use strict';

const $ = id => document.getElementById(id);
const kDefaults = {workload: 'agents', count: 60, seed: 1, a: 'fcfs', b: 'uncached', load: 0, cache: 34, error: 5,
  keep: 'own', profile: 'aic/llama-3.1-8b/h100/bf16/tp1', columns: '', more: '', metric: 'ttft', request: ''};
const kCounts = {agents: ['Sessions', 60], flows: ['Workflows', 1200], single: ['Requests', 5000], own: ['', 0]};
const kPhases = ['queued', 'prefill', 'decode', 'preempted', 'tool', 'held'];
const kBlockTokens = 16;  // of the KV cache
const kAutomaticCliff = 4000;  // requests; more wait for the button
let settings = {...kDefaults};
let own = null;  // the file of requests {name, bytes}
let engines = null;  // the file of profiles {name, bytes}
let builtIn = [];  // names of takt's own profiles
let shown = null;  // the last result: {args, files, serial, json, bytes, csv, runs, ms}

// ---- numbers and texts --------------------------------------------------------------------------------------------

const number = v => !Number.isFinite(v) ? '-' : v === 0 ? '0' : Math.abs(v) >= 100 ? Math.round(v).toLocaleString('en') :
  String(Number(v.toPrecision(3)));
const seconds = v => !Number.isFinite(v) ? '-' : v < 0.9995 ? number(v * 1000) + ' ms' : number(v) + ' s';
const grouped = v => v.toLocaleString('en');
const rateScale = () => Number((2 ** (settings.load / 10)).toPrecision(3));
const cacheOf = step => Math.round(16.384 * 2 ** (step / 8)) * 1000;
const sigma = () => settings.error / 10;
const element = (name, attributes = {}, ...inside) => {
  const made = document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  made.append(...inside);
  return made;
};
const quoted = a => /^[\w@%+=:,.\/-]+$/.test(a) ? a : `'${a.replaceAll("'", `'\\''`)}'`;
// The words of a line, with quotes as in a shell.
const words = line => [...line.matchAll(/(?:[^\s'"]|'[^']*'|"[^"]*")+/g)].map(([w]) => w.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'));

// ---- the program --------------------------------------------------------------------------------------------------

// A worker that runs one command at a time. A cancelled run never resolves.
class Machine {
  constructor(program) { this.program = program, this.id = 0; }

  run(args, files, onShare = () => {}, pick = undefined) {
    if (!this.worker) {
      this.worker = new Worker(workerUrl);
      this.worker.postMessage({program: this.program});
    }
    const id = ++this.id;
    this.busy = true;
    return new Promise((resolve, reject) => {
      this.worker.onerror = event => reject(new Error(event.message));
      this.worker.onmessage = ({data}) => {
        if (data.id !== id) return;
        if (!data.result) return onShare(data.share);
        this.busy = false;
        resolve({...data.result, ms: data.ms});
      };
      this.worker.postMessage({id, args, files, pick});
    });
  }
  cancel() {
    if (!this.busy) return;
    this.worker.terminate();
    this.worker = null, this.busy = false, ++this.id;
  }
}

const workerUrl = URL.createObjectURL(new Blob([$('worker').textContent], {type: 'text/javascript'}));
let main, side;

async function unpack() {
  const packed = Uint8Array.from(atob($('program').textContent), c => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}

// ---- settings -----------------------------------------------------------------------------------------------------

function workloadOf() {
  const {workload, count, seed} = settings;
  if (workload === 'agents') return ['agents.jsonl', {'agents.jsonl': new TextEncoder().encode(agentSessions(count, seed))}];
  if (workload === 'flows') return [`gen:multi_stage,workflows=${count},seed=${seed}`, {}];
  if (workload === 'single') return [`gen:poisson,requests=${count},rate=18,seed=${seed}`, {}];
  return own ? [own.name, {[own.name]: own.bytes}] : [null, {}];
}

// Returns {args, files}: a command of takt, without its outputs; null without a file.
function commandOf({cache = cacheOf(settings.cache), keep = settings.keep} = {}) {
  const [name, files] = workloadOf();
  if (!name) return null;
  const args = ['replay', '--workload', name];
  if (settings.workload === 'own' && settings.columns) args.push('--columns', settings.columns);
  if (engines) args.push('--profiles', engines.name), files[engines.name] = engines.bytes;
  if (settings.profile !== kDefaults.profile) args.push('--profile', settings.profile);
  args.push('--policy', settings.a, '--policy', settings.b);
  args.push('--estimates', sigma() > 0 ? `noise:${sigma()}` : 'oracle');
  args.push('--rate-scale', String(rateScale()), '--kv-tokens', String(cache), '--seed', String(settings.seed));
  if (keep === 'lru' && keepsTurns()) args.push('--retention', 'lru', '--gate', 'none');
  args.push(...words(settings.more), '--no-wall', '--quiet');
  return {args, files};
}
const keepsTurns = () => settings.workload === 'agents' || settings.workload === 'own';
const textOf = (args, ...more) => ['takt', ...args, ...more].map(quoted).join(' ');

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  settings = {...kDefaults};
  for (const [key, value] of given) {
    if (!Object.hasOwn(kDefaults, key)) continue;
    const whole = typeof kDefaults[key] === 'number';
    if (!whole || /^-?\d+$/.test(value)) settings[key] = whole ? Number(value) : value;
  }
  if (!Object.hasOwn(kCounts, settings.workload)) settings.workload = kDefaults.workload;
  for (const key of ['load', 'cache', 'error']) {  // the ranges of the sliders
    settings[key] = Math.min(Number($(key).max), Math.max(Number($(key).min), settings[key]));
  }
  if (settings.metric !== 'e2e') settings.metric = 'ttft';
  settings.count = Math.min(40000, Math.max(1, settings.count));
  settings.seed = Math.max(0, settings.seed);
}
function writeHash() {
  const given = new URLSearchParams();
  for (const key in kDefaults) if (settings[key] !== kDefaults[key]) given.set(key, settings[key]);
  const hash = '#' + given;
  if (hash !== location.hash) history.replaceState(null, '', hash);
}

function showSettings() {
  for (const key of ['workload', 'count', 'seed', 'a', 'b', 'load', 'cache', 'error', 'keep', 'profile', 'columns', 'more']) {
    const field = $(key);
    if (document.activeElement !== field || field.type === 'range') field.value = settings[key];
    if (field.tagName === 'SELECT' && field.value !== String(settings[key])) {  // a policy with options, from a link
      field.append(element('option', {value: settings[key]}, settings[key]));
      field.value = settings[key];
    }
  }
  for (const radio of document.querySelectorAll('[name=metric]')) radio.checked = radio.value === settings.metric;
  const [name] = kCounts[settings.workload];
  $('count-row').hidden = settings.workload === 'own', $('count-name').textContent = name;
  $('own-row').hidden = settings.workload !== 'own';
  $('keep-row').hidden = !keepsTurns();
  $('workload-file').hidden = settings.workload !== 'agents';
  $('load-text').textContent = `arrivals \u00d7 ${rateScale()}`;
  $('cache-text').textContent = `${grouped(cacheOf(settings.cache))} tokens`;
  $('error-text').textContent = sigma() > 0 ? `about \u00d7 ${number(Math.exp(sigma()))}` : 'exact';
  $('load').setAttribute('aria-valuetext', $('load-text').textContent);
  $('cache').setAttribute('aria-valuetext', $('cache-text').textContent);
  $('error').setAttribute('aria-valuetext', $('error-text').textContent);
  $('about').textContent = `A: ${policyText[settings.a] ?? ''}. B: ${policyText[settings.b] ?? ''}.`;
}

const policyText = {};
function fillLists(policies, profiles) {
  for (const line of policies.split('\n\n')[1].split('\n')) {
    const [, name, text] = /^  ([a-z_]+) +(.*)$/.exec(line) ?? [];
    if (name) policyText[name] = text;
  }
  for (const list of ['a', 'b']) fill(list, Object.keys(policyText));
  fillProfiles(profiles);
}
const fill = (list, names) => $(list).replaceChildren(...names.map(name => element('option', {value: name}, name)));
const fillProfiles = text => fill('profile', [...text.matchAll(/^  (\S+\/\S+)/gm)].map(([, id]) => id));

// ---- a run --------------------------------------------------------------------------------------------------------

// Returns the requests of each run as columns of numbers; times in seconds.
function readCsv(bytes, runs) {
  // A line break in quotes belongs to a field.
  const lines = new TextDecoder().decode(bytes).replace(/"([^"]|"")*"/g, field => field.replaceAll('\n', ' ')).split('\n');
  const names = lines[0].split(','), size = (lines.length - 2) / runs;
  const columns = ['arrival_s', 'queue_s', 'ttft_s', 'e2e_s', 'end_s', 'prompt_tokens', 'output_tokens', 'cached_tokens',
    'preemptions', 'recomputed_tokens', 'workflow'];
  const at = columns.map(name => names.indexOf(name));
  return Array.from({length: runs}, (_, r) => {
    const run = {size, stage: [], outcome: []};
    for (const name of columns) run[name] = new Float64Array(size);
    for (let i = 0; i < size; ++i) {
      const line = lines[1 + r * size + i];
      const fields = line.includes('"') ? line.match(/("([^"]|"")*"|[^,]*)(,|$)/g).map(f => f.replace(/,$/, '')) : line.split(',');
      columns.forEach((name, c) => { run[name][i] = fields[at[c]] === '' ? NaN : Number(fields[at[c]]); });
      run.stage.push(fields[names.indexOf('stage')]), run.outcome.push(fields[names.indexOf('outcome')]);
    }
    return run;
  });
}

function showCommand() {
  $('command').textContent = commandOf() ? textOf(commandOf().args, '--json', 'takt.json') : '';
}

let wanted = false, timer = 0, beganAt = 0, serial = 0, listening = false;
function change() {
  writeHash(), showSettings();
  showCommand();
  $('equal').textContent = '', $('check').value = '';
  wanted = true;
  if (main.busy && performance.now() - beganAt > 500) main.cancel();
  clearTimeout(timer);
  timer = setTimeout(start, 60);
}

async function start() {
  if (main.busy || !wanted) return;
  wanted = false;
  const command = commandOf();
  $('fault').hidden = true;
  if (!command) return void ($('state').textContent = 'Choose or drop a file of requests.');
  beganAt = performance.now();
  const slow = setTimeout(() => { $('cancel').hidden = false; }, 300);
  $('state').textContent = 'Simulating', $('progress').value = 0;
  const result = await main.run([...command.args, '--json', 'takt.json', '--csv', 'requests.csv'], command.files,
    share => { $('progress').value = share; });
  clearTimeout(slow);
  $('cancel').hidden = true, $('progress').value = 1;
  if (result.code !== 0) {
    $('fault').textContent = result.err || `takt ended with ${result.code}`, $('fault').hidden = false;
    $('state').textContent = 'takt refused these settings' + (shown ? ': the figures below are those of the last run' : '');
  } else {
    const json = JSON.parse(new TextDecoder().decode(result.files['takt.json']));
    shown = {...command, serial: ++serial, json, bytes: result.files['takt.json'], csv: result.files['requests.csv'], ms: result.ms,
      runs: readCsv(result.files['requests.csv'], json.runs.length)};
    show();
    $('state').textContent = `${grouped(json.workload.requests)} requests under ${json.runs.length} policies in ` +
      `${number(result.ms / 1000)} s, at ${number(json.workload.offered_rps * rateScale())} requests/s`;
    document.body.dataset.done = textOf(command.args);
  }
  if (wanted) start();
  else if (listening) scheduleCliff();
}

function cancel() {
  main.cancel();
  wanted = false;
  $('cancel').hidden = true, $('progress').value = 0;
  $('state').textContent = 'Cancelled: the figures below are those of the last run';
}

// ---- plots --------------------------------------------------------------------------------------------------------

const kBox = {height: 300, left: 56, top: 10, bottom: 258};

// Returns a function from values to pixels, with its ticks.
function axis(least, most, from, to, log) {
  if (!Number.isFinite(least) || !Number.isFinite(most) || (log && !(least > 0))) least = log ? 1 : 0, most = 10;
  if (!(most > least)) most = log ? least * 10 : least + 1;
  const share = log ? v => Math.log(v / least) / Math.log(most / least) : v => (v - least) / (most - least);
  const ticks = [];
  if (log) {
    const many = most / least > 3000;
    for (let e = Math.floor(Math.log10(least)); e <= Math.log10(most); ++e) {
      for (const m of many ? [1] : most / least > 60 ? [1, 3] : [1, 2, 5]) ticks.push(m * 10 ** e);
    }
  } else {
    const raw = (most - least) / 5, base = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(m => m * base).find(s => s >= raw);
    for (let t = Math.ceil(least / step) * step; t <= most * (1 + 1e-9); t += step) ticks.push(Number(t.toPrecision(12)));
  }
  const place = v => from + Math.min(1, Math.max(0, share(v))) * (to - from);
  return Object.assign(place, {ticks: ticks.filter(t => t >= least * 0.999 && t <= most * 1.001)});
}

// The ticks of a horizontal axis, at least 48 pixels apart.
const thinned = place => place.ticks.filter((t, i, all) => i % Math.ceil(48 / Math.max(1, place(all[1]) - place(all[0]) || 48)) === 0);

const svgText = (x, y, anchor, text) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${text}</text>`;

// lines: [{name, style, points: [[x, y]]}]; x and y: {least, most, log, label, format}.
function plot(host, {x, y, lines, marks = false, now}) {
  const width = Math.max(260, host.clientWidth), right = width - 12, {height, left, top, bottom} = kBox;
  const px = axis(x.least, x.most, left, right, x.log), py = axis(y.least, y.most, bottom, top, y.log);
  const parts = [];
  for (const t of py.ticks) {
    parts.push(`<path class="grid" d="M${left} ${py(t)}H${right}"/>`, svgText(left - 6, py(t) + 4, 'end', y.format(t)));
  }
  for (const t of thinned(px)) {
    parts.push(`<path class="grid" d="M${px(t)} ${top}V${bottom}"/>`, svgText(px(t), bottom + 18, 'middle', x.format(t)));
  }
  parts.push(svgText((left + right) / 2, height - 6, 'middle', x.label));
  if (now !== undefined) parts.push(`<path class="now" d="M${px(now)} ${top}V${bottom}"/>`);
  for (const {style, points} of lines) {
    const d = points.map(([a, b]) => `${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join('L');
    if (d) parts.push(`<path class="line ${style}" d="M${d}"/>`);
    if (marks) for (const [a, b] of points) parts.push(`<circle class="${style}" cx="${px(a)}" cy="${py(b)}" r="3"/>`);
  }
  const label = lines.map(l => l.name).join(', ');
  host.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img"><title></title>${parts.join('')}</svg>`;
  host.querySelector('title').textContent = `${x.label}: ${label}`;
  const legend = element('div', {class: 'legend'});
  for (const {name, style} of lines) {
    const entry = element('span');
    entry.innerHTML = `<svg viewBox="0 0 26 10"><path class="line ${style}" d="M0 5H26"/></svg>`;
    entry.append(name);
    legend.append(entry);
  }
  host.append(legend);
}

const label = r => shown.json.runs[r].policy;
const valuesOf = run => settings.metric === 'e2e' ? run.e2e_s : run.ttft_s;

function showCdf() {
  const lines = shown.runs.slice(0, 2).map((run, r) => {
    const sorted = valuesOf(run).filter(Number.isFinite).sort();
    const n = sorted.length, count = Math.min(n, 300);
    return {name: label(r), style: 'ab'[r], sorted,
      points: Array.from({length: count}, (_, i) => {
        const at = Math.round(i * (n - 1) / Math.max(1, count - 1));
        return [sorted[at], (at + 1) / n];
      })};
  });
  const all = lines.flatMap(l => l.sorted.length ? [l.sorted[0], l.sorted.at(-1)] : []);
  if (!all.length) return void ($('cdf').textContent = 'No request completed.');
  const least = Math.max(1e-3, Math.min(...all)), most = Math.max(least * 10, ...all);
  for (const line of lines) line.points = line.points.map(([v, share]) => [Math.max(v, least), share]);
  plot($('cdf'), {x: {least, most, log: true, label: settings.metric === 'e2e' ? 'time to last token' : 'time to first token',
    format: seconds}, y: {least: 0, most: 1, format: v => `${Math.round(v * 100)} %`}, lines});
}

let dots = [];  // [x, y, request, run] of each drawn request
function showDots() {
  const canvas = $('dots'), ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio, canvas.height = height * ratio;
  const pen = canvas.getContext('2d');
  pen.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement), colour = name => style.getPropertyValue(name).trim();
  const runs = shown.runs.slice(0, 2);
  let last = 0, least = Infinity, most = 0;
  for (const run of runs) {
    const values = valuesOf(run);
    for (let i = 0; i < run.size; ++i) {
      if (run.arrival_s[i] > last) last = run.arrival_s[i];
      if (values[i] > 0 && values[i] < least) least = values[i];
      if (values[i] > most) most = values[i];
    }
  }
  least = Math.max(1e-3, Math.min(least, most / 10));
  const px = axis(0, last, 52, width - 8, false), py = axis(least, most, height - 34, 8, true);
  pen.font = '12px system-ui, sans-serif';
  pen.strokeStyle = colour('--grid'), pen.fillStyle = colour('--soft');
  const line = (x1, y1, x2, y2) => { pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); };
  pen.textAlign = 'right';
  for (const t of py.ticks) line(52, py(t), width - 8, py(t)), pen.fillText(seconds(t), 47, py(t) + 4);
  pen.textAlign = 'center';
  for (const t of px.ticks) line(px(t), 8, px(t), height - 34), pen.fillText(number(t), px(t), height - 19);
  pen.fillText('arrival [s]', (52 + width) / 2, height - 4);
  dots = [];
  const size = runs[0].size > 4000 ? 1.2 : 2;
  runs.forEach((run, r) => {
    pen.fillStyle = colour(r ? '--b' : '--a'), pen.globalAlpha = 0.55;
    const values = valuesOf(run);
    for (let i = 0; i < run.size; ++i) {
      if (!Number.isFinite(values[i])) continue;
      const x = px(run.arrival_s[i]), y = py(Math.max(values[i], least));
      dots.push([x, y, i, r]);
      pen.beginPath();
      if (r) pen.rect(x - size, y - size, 2 * size, 2 * size);
      else pen.arc(x, y, size + 0.3, 0, 7);
      pen.fill();
    }
  });
  pen.globalAlpha = 1;
  const chosen = dots.filter(d => d[2] === Number(settings.request) && settings.request !== '');
  if (chosen.length === 2) pen.strokeStyle = colour('--ink'), line(chosen[0][0], chosen[0][1], chosen[1][0], chosen[1][1]);
  for (const [x, y, , r] of chosen) {
    pen.fillStyle = colour(r ? '--b' : '--a'), pen.strokeStyle = colour('--ink'), pen.lineWidth = 2;
    pen.beginPath(), pen.arc(x, y, 6, 0, 7), pen.fill(), pen.stroke();
  }
}

// ---- the comparison -----------------------------------------------------------------------------------------------

// Rows of the table: name, value of a run's metrics, text, and which is better (-1: less, 1: more, 0: neither).
const kRows = [
  ['mean workflow latency', m => m.workflow_s.mean, seconds, -1, j => j.workload.requests > j.workload.workflows],
  ['p99 of workflow latency', m => m.workflow_s.p99, seconds, -1, j => j.workload.requests > j.workload.workflows],
  ['mean request latency', m => m.e2e_s.mean, seconds, -1],
  ['p99 of request latency', m => m.e2e_s.p99, seconds, -1],
  ['mean time to first token', m => m.ttft_s.mean, seconds, -1],
  ['p99 of time to first token', m => m.ttft_s.p99, seconds, -1],
  ['mean time per token', m => m.tpot_s.mean, seconds, -1],
  ['requests within the SLO', m => m.slo_attainment, v => `${number(v * 100)} %`, 1],
  ['requests served per second', m => m.throughput_rps, number, 1],
  ['prompt tokens found in the cache', m => m.cached_share, v => `${number(v * 100)} %`, 1, (j, m) => m.cached_share !== undefined],
  ['peak of the KV cache', m => m.kv_peak, v => `${number(v * 100)} %`, 0],
  ['preemptions', m => m.preemptions, grouped, -1],
];

function show() {
  const {json} = shown, [a, b] = json.runs.map(run => run.metrics);
  const head = element('tr', {}, element('th', {scope: 'col'}));
  [0, 1].forEach(r => head.append(element('th', {scope: 'col'}, element('i', {class: 'key ' + 'ab'[r]}), label(r))));
  head.append(element('th', {scope: 'col'}, 'B against A'));
  const body = element('tbody');
  for (const [name, value, text, sign, applies] of kRows) {
    if (applies && !applies(json, a)) continue;
    const u = value(a), v = value(b), row = element('tr', {}, element('th', {scope: 'row'}, name));
    for (const [mine, other] of [[u, v], [v, u]]) {
      const best = sign !== 0 && text(mine) !== text(other) && (mine - other) * sign > 0;
      row.append(element('td', best ? {class: 'best'} : {}, text(mine)));
    }
    const change = u > 0 ? (v / u - 1) * 100 : 0;
    row.append(element('td', {}, Math.abs(change) < 0.5 || text(u) === text(v) ? '=' : change >= 900 ? `\u00d7 ${number(v / u)}` :
      `${change > 0 ? '+' : '\u2212'}${number(Math.abs(change))} %`));
    body.append(row);
  }
  $('table').replaceChildren(element('thead', {}, head), body);
  const many = json.workload.requests > json.workload.workflows;
  const [name, u, v] = many ? ['mean workflow latency', a.workflow_s.mean, b.workflow_s.mean] :
    ['mean request latency', a.e2e_s.mean, b.e2e_s.mean];
  const failed = json.runs.map((run, r) => run.failed > 0 ? ` ${label(r)} failed ${grouped(run.failed)} requests.` : '').join('');
  $('verdict').textContent = (Math.abs(v / u - 1) < 0.01 ? `Hardly any difference: the ${name} is ${seconds(u)}.` :
    `The ${name} is ${seconds(v)} under ${label(1)} and ${seconds(u)} under ${label(0)}: ` +
    `${number(Math.abs(v / u - 1) * 100)} % ${v < u ? 'less' : 'more'}.`) + failed;
  $('warnings').replaceChildren(...json.warnings.map(w => element('li', {}, w)));
  $('version').textContent = json.takt;
  $('figures').textContent = `takt.json has ${grouped(shown.bytes.length)} bytes. The run took ${number(shown.ms / 1000)} s.`;
  showCdf();
  if (settings.request === '' || Number(settings.request) >= shown.runs[0].size) settings.request = String(picks['wait-a']());
  choose(Number(settings.request));
}

// ---- one request --------------------------------------------------------------------------------------------------

const argmax = score => {
  let best = 0;
  for (let i = 1; i < shown.runs[0].size; ++i) if (score(i) > score(best) || Number.isNaN(score(best))) best = i;
  return best;
};
const picks = {
  'wait-a': () => argmax(i => shown.runs[0].ttft_s[i]),
  'wait-b': () => argmax(i => shown.runs[1].ttft_s[i]),
  'gain': () => argmax(i => shown.runs[0].ttft_s[i] - shown.runs[1].ttft_s[i]),
  'loss': () => argmax(i => shown.runs[1].ttft_s[i] - shown.runs[0].ttft_s[i]),
};

let traceTimer = 0;
function choose(request) {
  settings.request = String(Math.min(shown.runs[0].size - 1, Math.max(0, request || 0)));
  $('request').value = settings.request, $('request').max = shown.runs[0].size - 1;
  writeHash();
  showDots();
  explain(Number(settings.request), null);
  clearTimeout(traceTimer);
  traceTimer = setTimeout(() => trace(Number(settings.request)), 150);
}

// Runs the settings again with the schedule, of which the worker keeps the request's own lines.
async function trace(request) {
  if (main.busy) return void (traceTimer = setTimeout(() => trace(request), 200));
  const of = shown;
  const args = [...of.args, '--perfetto', 'schedule.json', '--perfetto-limit', String(of.json.workload.requests)];
  const result = await main.run(args, of.files, () => {}, {request, key: of.serial});
  if (of === shown && String(request) === settings.request && result.code === 0) explain(request, result.picked);
  if (wanted) start();
}

function explain(request, picked) {
  const host = $('explain');
  const runs = shown.runs.slice(0, 2);
  const first = Math.min(...runs.map(run => run.arrival_s[request]));
  const last = Math.max(...runs.map(run => Number.isFinite(run.end_s[request]) ? run.end_s[request] : run.arrival_s[request]));
  const span = Math.max(1e-9, last - first);
  const place = t => `${Math.min(100, Math.max(0, (t - first) / span * 100))}%`;
  const bars = element('div', {class: 'bars'}), why = element('div', {class: 'why'});
  const used = new Set();
  runs.forEach((run, r) => {
    const bar = element('div', {class: 'bar'});
    const arrival = run.arrival_s[request], start = arrival + run.queue_s[request];
    const slices = picked ? picked[r].slices : Number.isFinite(start) ?
      [['queued', arrival, start], ['decode', start, run.end_s[request]]] : [];
    for (const [phase, from, to] of slices) {
      used.add(phase);
      const part = element('span', {title: `${phase}: ${seconds(to - from)}`});
      part.style.cssText = `left:${place(from)};width:${(to - from) / span * 100}%;background:var(--${phase})`;
      bar.append(part);
    }
    if (Number.isFinite(run.ttft_s[request])) {
      const mark = element('span', {class: 'first', title: 'first token'});
      mark.style.left = place(arrival + run.ttft_s[request]);
      bar.append(mark);
    }
    bars.append(element('span', {}, element('i', {class: 'key ' + 'ab'[r]}), label(r)), bar);
    why.append(element('div', {}, element('h3', {}, `Under ${label(r)}`), reasons(request, r, picked && picked[r], slices)));
  });
  const scale = element('div', {class: 'scale'});
  for (let i = 0; i <= 4; ++i) scale.append(element('span', {}, `${number(first + span * i / 4)} s`));
  bars.append(element('span'), scale);
  const legend = element('p', {class: 'legend'});
  for (const phase of kPhases.filter(p => used.has(p))) {
    const swatch = element('i', {class: 'swatch'});
    swatch.style.background = `var(--${phase})`;
    legend.append(element('span', {}, swatch, phase));
  }
  legend.append(element('span', {}, '| first token'));
  const run = runs[0], stage = run.stage[request];
  const intro = element('p', {}, `Request ${request}${stage ? ` (${stage})` : ''} of workflow ${run.workflow[request]}: ` +
    `a prompt of ${grouped(run.prompt_tokens[request])} tokens, ${grouped(run.output_tokens[request])} tokens of output.`);
  host.replaceChildren(intro, bars, legend, why);
  if (!picked) host.append(element('p', {class: 'soft'}, 'Reading the schedule of this run for the reason ...'));
}

// Returns the means of the samples between two times; of the last sample before if there is none. Null without any.
function meansOf(samples, from, to) {
  const means = {};
  for (const name in samples) {
    const inside = samples[name].filter(([t]) => t >= from && t <= to);
    const used = inside.length ? inside : samples[name].filter(([t]) => t < from).slice(-1);
    if (!used.length) return null;
    means[name] = used.reduce((sum, [, value]) => sum + value, 0) / used.length;
  }
  return means;
}

// The scheduler's reasons (WaitsFor in docs/reference/fields.md).
const kWaitsFor = {
  nothing: 'the end of a step', its_turn: 'the next plan', sequences: 'a free place among the running requests',
  kv: 'KV memory', budget: 'tokens in a step, which other requests used up', adapter: 'a free place for its adapter',
  move: 'a move of its KV', declined: 'the policy, which kept it out', prefix: 'a prefix that a running request computed',
  gate: "the gate, which protects the KV of other agents' turns", ceiling: "its class's or tenant's share",
};

// Returns [reason, share of the time] of the steps between two times, longest first; without shares below 1 %.
function causesOf(steps, from, to) {
  const times = {};
  for (const [begin, end, reason] of steps) {
    const inside = Math.min(end, to) - Math.max(begin, from);
    if (inside > 0) times[reason] = (times[reason] ?? 0) + inside;
  }
  return Object.entries(times).map(([reason, time]) => [reason, time / (to - from)]).filter(([, share]) => share >= 0.01)
    .sort((a, b) => b[1] - a[1]);
}

// Returns the facts about a request's wait in a run, as a list.
function reasons(request, r, picked, slices) {
  const run = shown.runs[r], list = element('ul'), add = (...text) => list.append(element('li', {}, ...text));
  const arrival = run.arrival_s[request], wait = run.queue_s[request], start = arrival + wait;
  if (!Number.isFinite(arrival)) return add('It was never made: an earlier request of its workflow failed.'), list;
  if (!Number.isFinite(start)) return add(`It came at ${number(arrival)} s and never ran: ${run.outcome[request]}.`), list;
  add(`It came at ${number(arrival)} s, waited ${seconds(wait)} for its first step, had its first token after ` +
    `${seconds(run.ttft_s[request])} and its last after ${seconds(run.e2e_s[request])}.`);
  if (shown.json.engine.prefix_cache) {
    const share = run.cached_tokens[request] / run.prompt_tokens[request];
    add(`${number(share * 100)} % of its prompt was in the cache; the engine computed ` +
      `${grouped(run.prompt_tokens[request] - run.cached_tokens[request])} tokens.`);
  }
  if (wait > 1e-3) {
    let before = 0, passed = 0, tokens = 0;
    const held = [];
    for (let i = 0; i < run.size; ++i) {
      const begin = run.arrival_s[i] + run.queue_s[i];
      if (i === request || !(begin < start) || !(run.end_s[i] > arrival)) continue;
      held.push([Math.min(start, run.end_s[i]) - Math.max(arrival, begin), i]);
      if (begin < arrival) continue;
      run.arrival_s[i] > arrival ? ++passed : ++before;
      tokens += run.prompt_tokens[i] - run.cached_tokens[i];
    }
    add(`While it waited, ${grouped(before + passed)} other requests began (${grouped(tokens)} prompt tokens to compute): ` +
      `${grouped(before)} had come earlier, and ${grouped(passed)} had come later and passed it.`);
    const mean = picked && meansOf(picked.samples, arrival, start);
    if (mean) {
      const {engine} = shown.json, gate = engine.gate ?? 'none';
      const kv = mean.kv * kBlockTokens / engine.kv_tokens / engine.instances, seats = engine.max_seqs * engine.instances;
      add(`Meanwhile ${number(mean.waiting)} requests waited, and ${number(mean.running)} ran, of at most ${seats}. ` +
        `They used ${number(Math.min(1, kv) * 100)} % of the KV cache${gate === 'none' ? '' : '; turns that had ended kept KV in the rest'}. ` +
        `A step had ${number(mean.tokens)} of at most ${grouped(engine.token_budget)} tokens.`);
    }
    const causes = picked ? causesOf(picked.steps, arrival, start) : [];
    if (causes.length) {
      const named = causes.map(([reason, share]) => `${kWaitsFor[reason] ?? reason} ${Math.round(100 * share)} %`);
      add(element('strong', {}, `What the first of the queue waited for, in the scheduler's words, as shares of this wait: ${named.join(', ')}.`));
    }
    held.sort((u, v) => v[0] - u[0]);
    if (held.length) {
      const item = element('li', {}, 'The longest in front of it: ');
      held.slice(0, 4).forEach(([time, i], n) => {
        const go = element('button', {type: 'button', 'data-request': i}, `${i}`);
        item.append(n ? ', ' : '', go, ` (${seconds(time)}, ${grouped(run.prompt_tokens[i] + run.output_tokens[i])} tokens)`);
      });
      list.append(item);
    }
  }
  if (run.preemptions[request] > 0) {
    const lost = slices.filter(s => s[0] === 'preempted').reduce((sum, s) => sum + s[2] - s[1], 0);
    add(`It was preempted ${run.preemptions[request]} times${lost ? `, for ${seconds(lost)} in all` : ''}, and ` +
      `${grouped(run.recomputed_tokens[request])} tokens were computed again.`);
  }
  return list;
}

// ---- the cliff ----------------------------------------------------------------------------------------------------

let cliff = {key: '', points: []}, cliffTimer = 0, cliffRun = 0;
const cliffKey = () => JSON.stringify({...settings, cache: 0, keep: '', metric: '', request: '', own: own && own.name});

function scheduleCliff() {
  if (cliff.key === cliffKey()) return showCliff();
  side.cancel(), ++cliffRun;
  cliff = {key: '', points: []};
  $('cliff-state').textContent = '';
  clearTimeout(cliffTimer);
  const shares = shown && shown.json.runs[0].metrics.cached_share !== undefined;
  $('cliff-run').hidden = !shares, $('cliff-plots').hidden = !shares;
  showCliff();
  if (!shares) $('cliff-state').textContent = 'These requests share no prompts. Choose the sessions of agents.';
  else if (shown.json.workload.requests <= kAutomaticCliff) cliffTimer = setTimeout(shrink, 700);
}

async function shrink() {
  side.cancel();
  const mine = ++cliffRun;
  cliff = {key: cliffKey(), points: []};
  const runs = [];  // all with the settings of this moment
  for (let step = 52; step >= 16; step -= 4) {
    for (const keep of keepsTurns() ? ['own', 'lru'] : ['own']) runs.push({step, keep, command: commandOf({cache: cacheOf(step), keep})});
  }
  let done = 0;
  for (const {step, keep, command} of runs) {
    $('cliff-state').textContent = `${grouped(cacheOf(step))} tokens: ${done++} of ${runs.length} runs done`;
    const result = await side.run([...command.args, '--json', 'takt.json'], command.files);
    if (mine !== cliffRun) return;
    if (result.code !== 0) return void ($('cliff-state').textContent = result.err);
    const json = JSON.parse(new TextDecoder().decode(result.files['takt.json']));
    json.runs.slice(0, 2).forEach((run, r) => cliff.points.push({cache: cacheOf(step), keep, r, policy: run.policy,
      share: run.metrics.cached_share, ttft: run.metrics.ttft_s.mean}));
    showCliff();
  }
  $('cliff-state').textContent = 'Vertical line: the cache of the settings above';
}

function showCliff() {
  if ($('cliff-plots').hidden) return;
  const x = {least: cacheOf(16), most: cacheOf(52), log: true, label: 'KV cache [tokens]',
    format: v => v >= 1e6 ? `${number(v / 1e6)}M` : `${number(v / 1e3)}k`};
  const names = {own: 'takt\u2019s cache', lru: 'LRU cache'};
  const lines = of => ['own', 'lru'].flatMap(keep => [0, 1].map(r => ({
    name: `${'AB'[r]} ${settings['ab'[r]]}, ${names[keep]}`, style: 'ab'[r] + (keep === 'lru' ? ' dash' : ''),
    points: cliff.points.filter(p => p.keep === keep && p.r === r && Number.isFinite(p[of])).map(p => [p.cache, p[of]])})));
  const now = cacheOf(settings.cache);
  plot($('cliff-share'), {x, y: {least: 0, most: 1, format: v => `${Math.round(v * 100)} %`}, lines: lines('share'), marks: true, now});
  const all = cliff.points.map(p => p.ttft).filter(v => v > 0);
  plot($('cliff-ttft'), {x, y: {least: Math.min(0.1, ...all), most: Math.max(10, ...all), log: true, format: seconds},
    lines: lines('ttft'), marks: true, now});
}

// ---- files --------------------------------------------------------------------------------------------------------

function save(bytes, name, type) {
  const url = URL.createObjectURL(new Blob([bytes], {type}));
  const link = element('a', {href: url, download: name});
  document.body.append(link), link.click(), link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function compare(file) {
  const bytes = new Uint8Array(await file.arrayBuffer()), mine = shown.bytes;
  let at = 0;
  while (at < bytes.length && at < mine.length && bytes[at] === mine[at]) ++at;
  $('equal').textContent = bytes.length === mine.length && at === mine.length ? `Equal: all ${grouped(at)} bytes` :
    `Different from byte ${grouped(at)} on: ${new TextDecoder().decode(mine.slice(at, at + 40))}`;
}

// Returns the name of a file of the user that no other file of the command has.
function nameOf(file, other) {
  const name = file.name.replace(/[^\w.-]/g, '_');
  const taken = ['takt.json', 'requests.csv', 'schedule.json', 'report.html', 'agents.jsonl', other && other.name];
  return taken.includes(name) ? `my_${name}` : name;
}

// Takes a dropped file: profiles, or requests.
async function take(file) {
  let profiles = false;
  if (file.size < 4e6) {
    try {
      profiles = Array.isArray(JSON.parse(await file.text()).profiles);
    } catch {}
  }
  return profiles ? takeProfiles(file) : takeRequests(file);
}

async function takeRequests(file) {
  own = {name: nameOf(file, engines), bytes: new Uint8Array(await file.arrayBuffer())};
  settings.workload = 'own';
  cliff.key = '';
  change();
}

async function takeProfiles(file) {
  const taken = {name: nameOf(file, own), bytes: new Uint8Array(await file.arrayBuffer())};
  const machine = new Machine(main.program);
  const result = await machine.run(['profiles', '--profiles', taken.name], {[taken.name]: taken.bytes});
  machine.worker.terminate();
  $('profiles-fault').textContent = result.code === 0 ? '' : result.err;
  if (result.code !== 0) return;
  engines = taken;
  fillProfiles(result.out);
  const all = [...$('profile').options].map(option => option.value), fresh = all.filter(id => !builtIn.includes(id));
  // A link may name one of them.
  if (!fresh.includes(settings.profile)) settings.profile = fresh[0] ?? (all.includes(settings.profile) ? settings.profile : kDefaults.profile);
  cliff.key = '';
  change();
}

async function report() {
  const tab = window.open('', '_blank');
  const machine = new Machine(main.program);
  const result = await machine.run([...shown.args, '--html', 'report.html'], shown.files);
  machine.worker.terminate();
  const url = URL.createObjectURL(new Blob([result.files['report.html']], {type: 'text/html'}));
  if (tab) tab.location = url;
  else save(result.files['report.html'], 'report.html', 'text/html');
}

const copy = (button, text) => navigator.clipboard.writeText(text).then(() => {
  const old = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = old; }, 1200);
});

// ---- begin --------------------------------------------------------------------------------------------------------

function listen() {
  listening = true;
  $('settings').addEventListener('submit', event => event.preventDefault());
  for (const key of ['load', 'cache', 'error', 'count', 'seed']) {
    $(key).addEventListener('input', () => {
      if ($(key).value === '' || !$(key).checkValidity()) return;
      settings[key] = Number($(key).value), change();
    });
  }
  for (const key of ['a', 'b', 'keep', 'profile']) $(key).addEventListener('change', () => { settings[key] = $(key).value, change(); });
  for (const key of ['columns', 'more']) $(key).addEventListener('change', () => { settings[key] = $(key).value.trim(), change(); });
  $('workload').addEventListener('change', () => {
    settings.workload = $('workload').value, settings.count = kCounts[settings.workload][1], settings.request = '';
    change();
  });
  for (const [key, taker] of [['file', takeRequests], ['profiles', takeProfiles]]) {
    $(key).addEventListener('click', () => { $(key).value = ''; });  // the same file may have changed
    $(key).addEventListener('change', () => { if ($(key).files[0]) taker($(key).files[0]); });
  }
  for (const radio of document.querySelectorAll('[name=metric]')) {
    radio.addEventListener('change', () => { settings.metric = radio.value, writeHash(), showCdf(), showDots(); });
  }
  addEventListener('dragover', event => { event.preventDefault(), document.body.classList.add('drop'); });
  addEventListener('dragleave', event => { if (!event.relatedTarget) document.body.classList.remove('drop'); });
  addEventListener('drop', event => {
    event.preventDefault(), document.body.classList.remove('drop');
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  $('cancel').addEventListener('click', cancel);
  $('link').addEventListener('click', () => copy($('link'), location.href));
  $('copy').addEventListener('click', () => copy($('copy'), $('command').textContent));
  $('json').addEventListener('click', () => save(shown.bytes, 'takt.json', 'application/json'));
  $('csv').addEventListener('click', () => save(shown.csv, 'requests.csv', 'text/csv'));
  $('workload-file').addEventListener('click', () => save(shown.files['agents.jsonl'], 'agents.jsonl', 'application/jsonl'));
  $('html').addEventListener('click', report);
  $('check').addEventListener('change', () => { if ($('check').files[0] && shown) compare($('check').files[0]); });
  $('cliff-run').addEventListener('click', shrink);
  $('request').addEventListener('change', () => shown && choose(Number($('request').value)));
  for (const button of document.querySelectorAll('[data-pick]')) {
    button.addEventListener('click', () => shown && choose(picks[button.dataset.pick]()));
  }
  $('explain').addEventListener('click', event => {
    if (event.target.dataset.request) choose(Number(event.target.dataset.request));
  });
  $('dots').addEventListener('click', event => {
    let best = 400, found = -1;  // square of at most 20 pixels
    for (const [x, y, i] of dots) {
      const far = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (far < best) best = far, found = i;
    }
    if (found >= 0) choose(found);
  });
  $('dots').addEventListener('keydown', event => {
    const step = {ArrowRight: 1, ArrowLeft: -1, PageUp: 100, PageDown: -100}[event.key];
    if (step && shown) event.preventDefault(), choose(Number(settings.request) + step);
  });
  addEventListener('resize', () => shown && (showCdf(), showDots(), showCliff()));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => shown && showDots());
  addEventListener('hashchange', () => { readHash(), change(); });
}

async function begin() {
  readHash();
  const program = await unpack();
  main = new Machine(program), side = new Machine(program);
  writeHash(), showSettings();
  wanted = true;
  await start();
  const [policies, profiles] = [await side.run(['policies'], {}), await side.run(['profiles'], {})];
  fillLists(policies.out, profiles.out);
  builtIn = [...$('profile').options].map(option => option.value);
  listen();
  showSettings(), showCommand();
  scheduleCliff();
}
begin().catch(error => {
  $('fault').textContent = `This browser cannot run the page: ${error.message}`, $('fault').hidden = false;
});
