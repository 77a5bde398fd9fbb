// Sessions of coding agents as takt's workflow JSONL. Integers alone, so that all browsers write the same file.
'use strict';

// Returns the text of `sessions` sessions, which begin about every five seconds. Each turn repeats the whole
// conversation so far, so a prefix cache holds nearly all of its prompt.
function agentSessions(sessions, seed) {
  const block = 64;  // tokens
  let state = (seed * 2654435761 + 1) >>> 0;
  const draw = (least, most) => {  // uniform, both included (Numerical Recipes' generator, upper bits)
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return least + Math.floor((state >>> 8) / 16777216 * (most - least + 1));
  };
  const lines = [JSON.stringify({takt_workload: 1, name: 'agents', prefix_block_tokens: block})];
  let arrival = 0;  // ms
  for (let s = 0; s < sessions; ++s) {
    arrival += draw(500, 9500);
    let context = draw(6000, 14000);
    const calls = [], turns = draw(6, 24);
    for (let t = 0; t < turns; ++t) {
      const output = draw(60, 320), asks = draw(1, 8) === 1;
      const pause = t === 0 ? 0 : calls[t - 1].next === 'user' ? draw(20000, 60000) : draw(1000, 8000);
      calls.push({stage: t === 0 ? 'begin' : 'turn', prompt: context, output, after: t === 0 ? [] : [t - 1],
        delay_s: pause / 1000, blocks: [[1, Math.floor(context / block)]], next: asks ? 'user' : 'tool'});
      context += output + draw(200, 1800);
    }
    lines.push(JSON.stringify({class: 'agent', arrival_s: arrival / 1000, calls}));
  }
  return lines.join('\n') + '\n';
}
