// The worker: compiles the program once, then runs one command after another. To cancel, the page ends the worker.
'use strict';

let compiled;
const schedule = {key: 0, text: ''};  // of the last result that was traced

// Returns the request's slices [phase, from, to] for each run of a schedule (docs/reference/cli_files.md). Also returns
// samples [time, value] of the counters and of the tokens of each step. Its steps are [from, to, reason] on the
// request's instance; the reason is why the first waiting request was not in the step. Times are in seconds.
function pick(text, request) {
  const runs = [];
  const own = `"tid":${request + 1},"ts"`;
  for (let at = 0, end; (end = text.indexOf('\n', at)) >= 0; at = end + 1) {
    if (text.startsWith('{"ph":"M","name":"process_name"', at) && text.slice(at, end).includes(': instance 0"')) {
      runs.push({slices: [], steps: [], own: 0, samples: {waiting: [], running: [], kv: [], tokens: []}});
    }
    const run = runs.at(-1);
    if (text.startsWith('{"ph":"X","name":"step"', at)) {
      const {pid, ts, dur, args} = JSON.parse(text.slice(at, end).replace(/,$/, ''));
      run.samples.tokens.push([ts / 1e6, args.prefill_tokens + args.decode_tokens]);
      run.steps.push([ts / 1e6, (ts + dur) / 1e6, args.queue_waits_for, pid]);
    } else if (text.startsWith('{"ph":"X"', at)) {
      const line = text.slice(at, end);
      if (!line.includes(own)) continue;
      const {name, pid, ts, dur} = JSON.parse(line.replace(/,$/, ''));
      if (name === 'queued') run.own = pid;
      run.slices.push([name, ts / 1e6, (ts + dur) / 1e6]);
    } else if (text.startsWith('{"ph":"C"', at)) {
      const {name, ts, args} = JSON.parse(text.slice(at, end).replace(/,$/, ''));
      run.samples[name === 'KV blocks' ? 'kv' : name]?.push([ts / 1e6, args.value]);
    }
  }
  for (const run of runs) run.steps = run.steps.filter(step => step[3] === run.own);
  return runs;
}

self.onmessage = async ({data}) => {
  if (data.program) {
    compiled = WebAssembly.compile(data.program);
    return;
  }
  const module = await compiled;
  let last = 0;
  const began = performance.now();
  const run = () => runProgram(module, ['takt', ...data.args], data.files, share => {
    if (performance.now() < last + 50) return;
    last = performance.now();
    self.postMessage({id: data.id, share});
  });
  if (!data.pick) {
    const result = run();
    const ms = performance.now() - began;
    self.postMessage({id: data.id, result, ms}, Object.values(result.files).map(f => f.buffer));
    return;
  }
  let result = {code: 0, files: {}};
  if (schedule.key !== data.pick.key) {
    result = run();
    if (result.code === 0) schedule.key = data.pick.key, schedule.text = new TextDecoder().decode(result.files['schedule.json']);
  }
  const picked = result.code === 0 ? pick(schedule.text, data.pick.request) : null;
  self.postMessage({id: data.id, result: {code: result.code, picked}, ms: performance.now() - began});
};
