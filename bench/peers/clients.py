"""Uses takt-serve through the OpenAI package: streams, several choices, stop texts, cancel, errors and faults."""

import sys
import time
import urllib.request

import openai

base = sys.argv[1]
client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0, timeout=30)
model = client.models.list().data[0].id


def complete(**more):
    return client.completions.create(**{"model": model, "prompt": "Once", "max_tokens": 40} | more)


def fails(kind, **more):
    try:
        answer = complete(extra_headers={"X-Takt-Fault": kind}, **more)
        return None if not more.get("stream") else list(answer) and None
    except Exception as error:
        return error


parts = [{"type": "text", "text": "hello"}]
chat = client.chat.completions.create(model=model, messages=[{"role": "user", "content": parts}], max_tokens=8, n=3)
assert len(chat.choices) == 3 and chat.usage.completion_tokens == 24

texts, usage = ["", ""], None
for chunk in client.chat.completions.create(
    model=model, messages=[{"role": "user", "content": "hi"}], max_tokens=12, n=2, stream=True, stream_options={"include_usage": True}
):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        texts[choice.index] += choice.delta.content or ""
assert all(texts) and usage.completion_tokens == 24

whole = complete().choices[0].text
word = whole.split()[5]
stopped = complete(stop=[word]).choices[0]
assert stopped.finish_reason == "stop" and stopped.text == whole[: whole.index(word)]
assert "".join(chunk.choices[0].text for chunk in complete(stop=word, stream=True)) == stopped.text

stream = complete(max_tokens=100_000, stream=True)
next(iter(stream))
stream.close()

assert isinstance(fails("error"), openai.InternalServerError)
for kind in ("drop", "damage"):
    assert fails(kind) and fails(kind, stream=True), kind
assert isinstance(fails("stall", stream=True, timeout=1), openai.APITimeoutError)
for wrong, error in (({"model": "none"}, openai.NotFoundError), ({"max_tokens": 0}, openai.BadRequestError)):
    try:
        complete(**wrong)
        raise AssertionError(wrong)
    except error:
        pass

for _ in range(100):
    metrics = urllib.request.urlopen(base + "/metrics").read().decode()
    running = [line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running")]
    if running[0].endswith(" 0"):
        break
    time.sleep(0.05)
assert running[0].endswith(" 0"), running
print("openai", openai.__version__, "ok")
