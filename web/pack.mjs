// Puts the program, the worker, the style and the page's script into one HTML file.
//   node web/pack.mjs TAKT.WASM OUTPUT.HTML
import {readFileSync, writeFileSync} from 'node:fs';
import {gzipSync} from 'node:zlib';

const [wasm, output] = process.argv.slice(2);
const here = name => readFileSync(new URL(name, import.meta.url), 'utf8');
const program = gzipSync(readFileSync(wasm), {level: 9}).toString('base64');
const parts = {STYLE: here('page.css'), WORKER: here('wasi.js') + here('worker.js'), SCRIPT: here('agents.js') + here('page.js'), PROGRAM: program};
const html = here('index.html').replace(/\/\*([A-Z]+)\*\//g, (all, name) => parts[name] ?? all);
writeFileSync(output, html);
console.log(`${output}: ${(html.length / 1e6).toFixed(2)} MB`);
