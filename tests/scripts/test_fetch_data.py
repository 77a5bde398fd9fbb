"""Tests scripts/fetch-data against a server on the loopback address.

  python3 tests/scripts/test_fetch_data.py
"""
import contextlib
import gzip
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import json
import lzma
import pathlib
import sys
import tarfile
import tempfile
import threading
import unittest
import zipfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("fetch_data", str(ROOT / "scripts/fetch-data"))
fetch_data = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch_data", LOADER))
LOADER.exec_module(fetch_data)

BODY = b"a,b\n1,2\n" * 100
PUBLISHED = fetch_data.RESULTS


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path not in self.server.files:
            self.send_error(404)
            return
        data, claimed = self.server.files[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(claimed))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data)

    def log_message(self, *_):
        pass


class FetchData(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.files, self.server.asked = {"/owner/data/log.csv": (BODY, len(BODY))}, []
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.to = self.folder / "to"
        self.results(self.result("traces/log.csv.gz"))

    def result(self, path, name="/owner/data/log.csv", sha256=None, convert=fetch_data.as_published, body=BODY):
        url = f"http://127.0.0.1:{self.server.server_address[1]}{name}"
        source = fetch_data.Source(url, len(BODY), sha256 or hashlib.sha256(BODY).hexdigest())
        return fetch_data.Result(path, [source], convert, hashlib.sha256(body).hexdigest(), "CC0")

    def results(self, *results):
        before = fetch_data.RESULTS
        fetch_data.RESULTS = list(results)
        self.addCleanup(setattr, fetch_data, "RESULTS", before)

    def run_it(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = fetch_data.main(["--to", str(self.to), *map(str, arguments)])
        return status, out.getvalue()

    def left(self):
        return sorted(str(p.relative_to(self.to)) for p in self.to.rglob("*") if p.is_file())

    def test_a_file_is_fetched_once(self):
        status, out = self.run_it()
        self.assertEqual((status, out), (0, "written  traces/log.csv.gz (CC0)\n"))
        self.assertEqual(gzip.open(self.to / "traces/log.csv.gz").read(), BODY)
        self.assertEqual(self.run_it(), (0, "there    traces/log.csv.gz (CC0)\n"))
        self.assertEqual(len(self.server.asked), 1)

    def test_equal_runs_give_equal_bytes(self):
        self.run_it()
        first = (self.to / "traces/log.csv.gz").read_bytes()
        (self.to / "traces/log.csv.gz").unlink()
        self.run_it()
        self.assertEqual((self.to / "traces/log.csv.gz").read_bytes(), first)

    def test_a_wrong_checksum_is_refused(self):
        self.server.files["/owner/data/log.csv"] = (BODY[:-1] + b"x", len(BODY))
        status, out = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("refused  traces/log.csv.gz: SHA-256 differs", out)
        self.assertEqual(self.left(), [])

    def test_a_longer_file_is_refused_unread(self):
        self.server.files["/owner/data/log.csv"] = (BODY * 1000, len(BODY) * 1000)
        status, out = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn(f"{len(BODY) + 1} bytes; expected {len(BODY)}", out)

    def test_a_truncated_body_is_not_run(self):
        self.server.files["/owner/data/log.csv"] = (BODY[:50], len(BODY))
        status, out = self.run_it()
        self.assertEqual(status, 3)
        self.assertIn("not run  traces/log.csv.gz: ", out)
        self.assertEqual(self.left(), [])

    def test_404_is_not_run_and_the_others_are_fetched(self):
        self.results(self.result("a.csv", "/gone.csv"), self.result("b.csv"))
        status, out = self.run_it()
        self.assertEqual(status, 3)
        self.assertRegex(out, r"not run  a\.csv: http://127.* Not Found\nwritten  b\.csv")
        self.assertEqual(self.left(), ["b.csv"])

    def test_a_host_that_does_not_answer_is_not_run(self):
        self.server.shutdown()
        self.server.server_close()
        status, out = self.run_it()
        self.assertEqual(status, 3)
        self.assertIn("not run", out)

    def test_a_refusal_outranks_a_source_that_is_not_reached(self):
        self.results(self.result("a.csv", "/gone.csv"), self.result("b.csv", sha256="0" * 64))
        self.assertEqual(self.run_it()[0], 1)

    def test_an_interrupted_run_leaves_nothing_and_is_repeated(self):
        def interrupted(_):
            raise KeyboardInterrupt
        self.results(self.result("a.csv"), self.result("b.csv", convert=interrupted))
        with self.assertRaises(KeyboardInterrupt):
            self.run_it()
        self.assertEqual(self.left(), ["a.csv"])
        self.results(self.result("a.csv"), self.result("b.csv"))
        self.assertEqual(self.run_it(), (0, "there    a.csv (CC0)\nwritten  b.csv (CC0)\n"))

    def test_an_interrupted_write_leaves_nothing(self):
        before = fetch_data.os.fsync
        self.addCleanup(setattr, fetch_data.os, "fsync", before)

        def full(_):
            raise OSError("no space left")
        fetch_data.os.fsync = full
        status, out = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("no space left", out)
        self.assertEqual(self.left(), [])

    def test_a_damaged_result_is_replaced(self):
        self.to.joinpath("traces").mkdir(parents=True)
        for damaged in (b"", b"no gzip", gzip.compress(BODY)[:20], gzip.compress(b"other")):
            (self.to / "traces/log.csv.gz").write_bytes(damaged)
            self.assertEqual(self.run_it()[1], "written  traces/log.csv.gz (CC0)\n")

    def test_a_conversion_with_another_result_is_refused(self):
        self.results(self.result("a.csv", convert=lambda data: data + b"\n"))
        status, out = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("the conversion gave another file", out)

    def test_names_select_results(self):
        self.results(self.result("a/x.csv"), self.result("b/x.csv"))
        self.assertEqual(self.run_it("b/")[1], "written  b/x.csv (CC0)\n")
        with self.assertRaises(SystemExit) as end, contextlib.redirect_stderr(io.StringIO()):
            self.run_it("c/")
        self.assertEqual(end.exception.code, 2)

    # ---- --from ----

    def tar(self, *members, link=None):
        path = self.folder / "data.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name in members:
                member = tarfile.TarInfo(name)
                member.size = len(BODY)
                if link:
                    member.type, member.linkname, member.size = tarfile.SYMTYPE, link, 0
                archive.addfile(member, io.BytesIO(BODY))
        return path

    def zip(self, *members):
        path = self.folder / "data.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name in members:
                archive.writestr(name, BODY)
        return path

    def test_files_come_from_an_archive_or_a_folder(self):
        unpacked = self.folder / "unpacked/data-main"
        unpacked.mkdir(parents=True)
        (unpacked / "log.csv").write_bytes(BODY)
        for source in (self.tar("data-main/log.csv"), self.zip("data-main/log.csv"), unpacked.parent):
            self.assertEqual(self.run_it("--from", source), (0, "written  traces/log.csv.gz (CC0)\n"))
            (self.to / "traces/log.csv.gz").unlink()
        self.assertEqual(self.server.asked, [])

    def test_the_longest_common_path_wins(self):
        path = self.zip("other/log.csv", "x/data/log.csv")
        local = fetch_data.Local(path)
        self.assertEqual(local.read(fetch_data.RESULTS[0].sources[0]), BODY)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("y/owner/data/log.csv", b"nearer")
        self.assertEqual(fetch_data.Local(path).read(fetch_data.RESULTS[0].sources[0]), b"nearer")

    def test_a_file_that_an_archive_lacks_is_not_run(self):
        self.assertEqual(self.run_it("--from", self.zip("other.csv"))[0], 3)

    def test_hostile_paths_are_refused(self):
        for name in ("/etc/log.csv", "../log.csv", "a/../../log.csv", "..\\log.csv", "C:\\log.csv"):
            for archive in (self.tar("a/log.csv", name), self.zip("a/log.csv", name)):
                status, out = self.run_it("--from", archive)
                self.assertEqual((status, out.startswith("refused: archive: ")), (1, True), name)
        self.assertEqual(self.run_it("--from", self.tar("log.csv", link="/etc/passwd"))[0], 1)
        self.assertFalse(self.to.exists())

    def test_damaged_and_encrypted_archives_are_refused(self):
        packed = self.folder / "packed.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("log.csv", BODY)
        data = packed.read_bytes()
        begin = data.index(b"log.csv") + len("log.csv")
        directory = data.index(b"PK\x01\x02")
        damaged = data[:begin] + b"\xff" * 4 + data[begin + 4:]
        encrypted = data[:6] + b"\x01" + data[7:directory + 8] + b"\x01" + data[directory + 9:]
        unknown = data[:8] + b"\x61" + data[9:directory + 10] + b"\x61" + data[directory + 11:]
        for content in (damaged, encrypted, unknown):
            packed.write_bytes(content)
            status, out = self.run_it("--from", packed)
            self.assertEqual((status, out.startswith("refused  traces/log.csv.gz: ")), (1, True), out)
        whole = self.tar("log.csv").read_bytes()
        for name, pack in (("cut.tar.gz", gzip.compress), ("cut.tar.xz", lzma.compress)):
            (self.folder / name).write_bytes(pack(whole)[:-12])
            status, out = self.run_it("--from", self.folder / name)
            self.assertEqual((status, out[:7]), (1, "refused"), out)
        self.assertEqual(self.left() if self.to.exists() else [], [])

    def test_what_is_no_archive_is_refused(self):
        (self.folder / "x.txt").write_text("text")
        for path in ("x.txt", "gone"):
            self.assertEqual(self.run_it("--from", self.folder / path)[0], 1)

    # ---- conversions ----

    def test_text2sql(self):
        steps = ["extract_keywords", "generate_candidate_llama-agent", "generate_candidate_llama-agent", "revise"]
        query = {"Text2SQLRequest": [{"step": s, "input_length": 9, "output_length": i} for i, s in enumerate(steps)]}
        lines = [json.loads(line) for line in fetch_data.text2sql("t")(json.dumps([query, query]).encode()).splitlines()]
        self.assertEqual([c["preds"] for c in lines[0]["calls"]], [[], [0], [0], [1, 2]])
        self.assertEqual([c["paper_stage"] for c in lines[0]["calls"]], [1, 2, 2, 3])
        self.assertEqual((lines[1]["id"], lines[1]["first_copy"], lines[1]["n_stages"]), ("t_1", "t_0", 3))

    def test_gpt2_splits_words_as_published(self):
        gpt2 = fetch_data.Gpt2("#version\nh e\nhe l\nl o\n\u0120 w\n".encode())
        split = {"hello  world's 12ab\n": ["hello", " ", " world", "'s", " 12", "ab", "\n"],
                 "a\n\n b !?": ["a", "\n\n", " b", " !?"], "x   ": ["x", "   "]}
        for text, words in split.items():
            self.assertEqual(list(gpt2.words(text)), words)
        self.assertEqual(gpt2.count("hello"), 2)  # hel, lo
        self.assertEqual(gpt2.count(" w"), 1)

    def test_infercept(self):
        turns = {"a" * 32: [{"prompt_tokens": 5, "completion_tokens": 2, "api_time": 1e-5, "api_token_length": -3},
                            {"prompt_tokens": 7, "completion_tokens": 4}],
                 "7": [{"prompt": "a b", "completion": "c", "api_token": "Generate an image about this. ", "api_time": 2},
                       {"prompt": "a", "completion": "b", "api_token": "d", "api_time": 3}]}
        math, image = map(json.loads, fetch_data.infercept(json.dumps(turns).encode(), b"#version\n").splitlines())
        self.assertEqual((math["class"], math["total_gen"], math["n_api"]), ("math", 6, 1))
        self.assertEqual(math["segments"][0], {"ctx": 5, "gen": 2, "api": "math", "api_s": 1e-5, "ret": 0, "ret_raw": -3})
        self.assertEqual([s["api"] for s in image["segments"]], ["image", "chatbot"])
        self.assertEqual(image["prompt"], 3)

    def test_published_addresses(self):
        published = [s.url for r in PUBLISHED for s in r.sources]
        self.assertTrue(all(url.startswith("https://") for url in published))


if __name__ == "__main__":
    unittest.main()
