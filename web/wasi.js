// The part of WASI (preview 1) that the program uses: arguments, files in memory, and no clock.
'use strict';

class Exit {
  constructor(code) { this.code = code; }
}

// Runs the compiled module once. `files` maps names to Uint8Array. Returns {code, out, err, files}: the exit code, the
// texts of standard output and standard error, and the files that the program wrote. Calls progress(share).
function runProgram(module, args, files, progress) {
  const kBadFile = 8, kMissing = 44, kUnsupported = 52;  // errors of WASI
  const kRoot = 3;  // the descriptor of the only folder
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const sink = () => ({chunks: [], size: 0, at: 0});
  const open = [{data: new Uint8Array(), at: 0}, sink(), sink(), {}];
  const written = {};
  let memory;
  const view = () => new DataView(memory.buffer);
  const bytes = (at, size) => new Uint8Array(memory.buffer, at, size);
  const whole = ({chunks, size}) => {
    const all = new Uint8Array(size);
    let at = 0;
    for (const chunk of chunks) all.set(chunk, at), at += chunk.length;
    return all;
  };
  const texts = [...args].map(a => encoder.encode(a + '\0'));
  const sizes = (list, count, size) => {
    view().setUint32(count, list.length, true);
    view().setUint32(size, list.reduce((sum, text) => sum + text.length, 0), true);
    return 0;
  };

  const wasi = {
    args_sizes_get: (count, size) => sizes(texts, count, size),
    args_get(pointers, at) {
      for (const text of texts) {
        view().setUint32(pointers, at, true);
        bytes(at, text.length).set(text);
        pointers += 4, at += text.length;
      }
      return 0;
    },
    environ_sizes_get: (count, size) => sizes([], count, size),
    environ_get: () => 0,
    clock_time_get(clock, precision, at) {
      view().setBigUint64(at, 0n, true);
      return 0;
    },
    random_get(at, size) {
      bytes(at, size).fill(0);
      return 0;
    },
    proc_exit(code) { throw new Exit(code); },
    fd_prestat_get(fd, at) {
      if (fd !== kRoot) return kBadFile;
      view().setUint32(at, 0, true);
      view().setUint32(at + 4, 1, true);
      return 0;
    },
    fd_prestat_dir_name(fd, at) {
      bytes(at, 1)[0] = 47;  // '/'
      return 0;
    },
    fd_fdstat_get(fd, at) {
      if (!open[fd]) return kBadFile;
      bytes(at, 24).fill(0);
      bytes(at, 1)[0] = fd === kRoot ? 3 : fd < kRoot ? 2 : 4;  // a folder, a device, a file
      view().setBigUint64(at + 8, 0xffffffffffffffffn, true);
      view().setBigUint64(at + 16, 0xffffffffffffffffn, true);
      return 0;
    },
    fd_fdstat_set_flags: () => 0,
    path_open(folder, lookup, path, length, flags, rights, inherited, fdflags, at) {
      const name = decoder.decode(bytes(path, length).slice()).replace(/^\.?\//, '');
      let file;
      if (flags & 1) {  // create
        file = sink();
        written[name] = file;
      } else if (files[name]) {
        file = {data: files[name], at: 0};
      } else {
        return kMissing;
      }
      view().setUint32(at, open.push(file) - 1, true);
      return 0;
    },
    path_filestat_get(folder, flags, path, length, at) {
      const name = decoder.decode(bytes(path, length).slice()).replace(/^\.?\//, '');
      if (!files[name]) return kMissing;
      bytes(at, 64).fill(0);
      bytes(at + 16, 1)[0] = 4;
      view().setBigUint64(at + 32, BigInt(files[name].length), true);
      return 0;
    },
    fd_close(fd) {
      if (!open[fd]) return kBadFile;
      if (fd > kRoot) open[fd] = undefined;
      return 0;
    },
    fd_seek(fd, offset, whence, at) {
      const file = open[fd];
      if (!file || !file.data) return kUnsupported;
      const from = whence === 0 ? 0 : whence === 1 ? file.at : file.data.length;
      file.at = Math.max(0, from + Number(offset));
      view().setBigUint64(at, BigInt(file.at), true);
      return 0;
    },
    fd_read(fd, vectors, count, at) {
      const file = open[fd];
      if (!file || !file.data) return kBadFile;
      let sum = 0;
      for (let i = 0; i < count; ++i) {
        const to = view().getUint32(vectors + 8 * i, true), size = view().getUint32(vectors + 8 * i + 4, true);
        const part = file.data.subarray(file.at, file.at + size);
        bytes(to, part.length).set(part);
        file.at += part.length, sum += part.length;
      }
      view().setUint32(at, sum, true);
      return 0;
    },
    fd_write(fd, vectors, count, at) {
      const file = open[fd];
      if (!file || !file.chunks) return kBadFile;
      let sum = 0;
      for (let i = 0; i < count; ++i) {
        const from = view().getUint32(vectors + 8 * i, true), size = view().getUint32(vectors + 8 * i + 4, true);
        if (size > 0) file.chunks.push(bytes(from, size).slice());
        sum += size;
      }
      file.size += sum;
      view().setUint32(at, sum, true);
      return 0;
    },
  };

  const imports = {wasi_snapshot_preview1: {}, takt: {progress}};
  for (const {module: from, name} of WebAssembly.Module.imports(module)) {
    if (from === 'wasi_snapshot_preview1') imports[from][name] = wasi[name] ?? (() => kUnsupported);
  }
  const instance = new WebAssembly.Instance(module, imports);
  memory = instance.exports.memory;
  let code = 0, fault = '';
  try {
    instance.exports._start();
  } catch (error) {
    if (error instanceof Exit) code = error.code;
    else code = 1, fault = `the program stopped: ${error}\n`;
  }
  const results = {};
  for (const name in written) results[name] = whole(written[name]);
  return {code, out: decoder.decode(whole(open[1])), err: decoder.decode(whole(open[2])) + fault, files: results};
}
