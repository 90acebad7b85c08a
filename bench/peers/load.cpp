// Engine and load of the bench, in one thread of one program. It prints the engine's port, and then plays what each line of its
// input says, `MODE port=... name=value ...`, against the proxy on that port: it prints "begin" and "end" at the instants between
// which the proxy's CPU is to be read, and then one line of JSON.
//   streams   n streams at a steady rate, their starts spread over one gap (or over spread_ms): tokens and their added latency; with
//             `step` all of them speak in the same instant
//   requests  k connections, each with one request after the other, of one token, with prompts of log-uniform length
//   prompt    one prompt of so many bytes after the other: time to the engine's first and last byte
//   ends      n streams that end in the same step; each connection sends its next request at once: time to that first token
// Requests come from six lanes, of which one asks for a second model. With `lanes` and `models`, streams and requests take turns
// among so many lanes (x-lane: lane-0 and on), each with each of so many models (bench/model-0 and on).
// While it plays, it never sleeps, and takes a core of its own. To wake a thread that sleeps on another core costs the waker 5 to
// 30 us on a virtual machine; a proxy in front of an engine and a load that slept would be charged that for each event, and
// the most for the least load. `busy_ns` is the time in which there was something to do: the rest is what it has in reserve.
// Latency is the difference between the instant that a token carries and the instant at which it was read here: one clock, one
// machine. It knows no proxy.

#include "client.hpp"
#include "engine.hpp"

#include <cmath>
#include <functional>
#include <map>

namespace {

using namespace client;

constexpr int LANES = 6;

std::map<std::string, std::string> given;
bool commands_wait = false;

int64_t option(const char* name, int64_t otherwise) {
    auto found = given.find(name);
    return found == given.end() ? otherwise : atoll(found->second.c_str());
}

// One turn: all events that are there, and all tokens that are due. Sleeps for so many milliseconds if there is no event.
void turn(int milliseconds) {
    epoll_event found[512];
    int64_t began = now();
    int ready = events.wait(found, 512, milliseconds);
    for (int each = 0; each < ready; each++) {
        size_t number = wire::Poll::number(found[each]);
        switch (wire::Poll::owner(found[each])) {
            case Owner::Commands: commands_wait = true; break;
            case Owner::Listener: engine::accept_all(static_cast<int>(number)); break;
            case Owner::EngineConnection: engine::on_event(number, found[each].events); break;
            case Owner::LoadConnection:
                if (number < connections.size()) on_event(connections[number], found[each].events);
        }
    }
    if ((engine::on_time() || ready) && in_window) busy += now() - began;
}

void turns_until(int64_t until) {
    while (now() < until) turn(0);
}

// New connections; each of the engine's answers goes to `then`.
void open_connections(size_t count, std::function<void(Connection&, int64_t)> then) {
    connections = std::vector<Connection>(count);
    on_answer = std::move(then);
    for (size_t each = 0; each < count; each++) {
        connections[each].number = each;
        connected(connections[each]);
        if (each % 50 == 49) turns_until(now() + 8'000'000);  // no listener's backlog runs over
    }
}

const char* LANE_HEADERS[LANES] = {
    "user-agent: openai-python/2.9\r\n",
    "user-agent: openai-python/2.9\r\nx-lane: chat\r\n",
    "user-agent: openai-python/2.9\r\nx-lane: agents\r\n",
    "user-agent: openai-python/2.9\r\nauthorization: Bearer nightly-jobs-key\r\n",
    "user-agent: continue/1.4\r\n",
    "user-agent: openai-python/2.9\r\n",
};
constexpr int SMALL_MODEL_LANE = 5;

// The number of kinds of request: six, or each lane with each model.
size_t kinds() { return option("lanes", 0) ? static_cast<size_t>(option("lanes", 0) * option("models", 1)) : LANES; }

std::string lane_headers(size_t kind) {
    if (!option("lanes", 0)) return LANE_HEADERS[kind];
    return "user-agent: openai-python/2.9\r\nx-lane: lane-" + std::to_string(static_cast<int64_t>(kind) % option("lanes", 0)) + "\r\n";
}

std::string model_of(size_t kind) {
    if (option("lanes", 0)) return "bench/model-" + std::to_string(static_cast<int64_t>(kind) / option("lanes", 0));
    return kind == SMALL_MODEL_LANE ? "meta-llama/Llama-3.1-8B-Instruct" : "meta-llama/Llama-3.3-70B-Instruct";
}

// A request as the OpenAI client writes it, with a prompt of so many bytes.
std::string request(size_t kind, int64_t tokens, int64_t bytes, const std::string& user, bool stream) {
    static const char* WORDS = "The quick brown fox jumps over the lazy dog, and then it said: \\\"no more of this\\\".\\n";
    std::string before = "{\"model\":\"" + model_of(kind) + "\",\"messages\":[{\"role\":\"user\",\"content\":\"", after =
        std::string("\"}],\"max_tokens\":") + std::to_string(tokens) + ",\"temperature\":0.7,\"user\":\"" + user + "\"" +
        (stream ? ",\"stream\":true" : "") + (option("usage", 0) ? ",\"stream_options\":{\"include_usage\":true}" : "") +
        (option("logprobs", 0) ? ",\"logprobs\":true,\"top_logprobs\":2" : "") + "}";
    std::string content;
    while (content.size() + strlen(WORDS) < static_cast<size_t>(bytes)) content += WORDS;
    while (content.size() < static_cast<size_t>(bytes)) content += 'x';
    std::string body = before + content + after;
    return "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:" + std::to_string(port) +
           "\r\naccept: application/json\r\ncontent-type: application/json\r\n" + lane_headers(kind) +
           "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

void say(const char* line) {
    puts(line);
    fflush(stdout);
}

int64_t quantile(std::vector<int64_t>& values, double share) {
    if (values.empty()) return -1;
    auto place = values.begin() + static_cast<long>(std::min<double>(values.size() - 1, std::floor(share * values.size())));
    std::nth_element(values.begin(), place, values.end());
    return *place;
}

void number_out(const char* name, int64_t value) { printf("\"%s\":%lld,", name, static_cast<long long>(value)); }

void quantiles_out(const char* name, std::vector<int64_t>& values) {
    printf("\"%s\":{\"count\":%zu,\"p50\":%lld,\"p99\":%lld,\"max\":%lld},", name, values.size(),
           static_cast<long long>(quantile(values, 0.5)), static_cast<long long>(quantile(values, 0.99)),
           static_cast<long long>(quantile(values, 1)));
}

struct Window {
    int64_t begin = 0, end = 0;
    void open() {
        say("begin");
        begin = now();
        in_window = true;
    }
    void close() {
        in_window = false;
        end = now();
        say("end");
    }
};

void report(const Window& window) {
    printf("{");
    number_out("window_ns", window.end - window.begin);
    number_out("busy_ns", busy);
    number_out("tokens", totals.window_tokens);
    number_out("requests", totals.window_requests);
    number_out("bytes", totals.window_bytes);
    number_out("tokens_total", totals.tokens);
    number_out("requests_total", totals.requests);
    std::string error;
    for (char letter : totals.error)
        error += letter == '"' || letter == '\\' ? '\'' : static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    printf("\"error\":\"%s\",\"errors\":%lld,", error.c_str(), static_cast<long long>(totals.errors));
}

bool any_busy() {
    return std::any_of(connections.begin(), connections.end(), [](const Connection& c) { return c.busy; });
}

void streams() {
    auto count = static_cast<size_t>(option("n", 100));
    int64_t gap = option("gap_us", 20'000) * 1000, spread = option("spread_ms", 0) * 1'000'000;
    int64_t settle = option("settle_ms", 700) * 1'000'000, length = option("window_ms", 4000) * 1'000'000;
    if (!spread) spread = gap;
    bool cut = option("cut", 0);  // do not wait for the streams' ends
    int64_t each_tokens = (spread + settle + length) / gap + 3;
    std::string user = "gap_us=" + std::to_string(gap / 1000) + (option("step", 0) ? " step=1" : "");
    std::vector<std::string> requests;
    for (size_t kind = 0; kind < kinds(); kind++) requests.push_back(request(kind, each_tokens, option("bytes", 2000), user, true));
    open_connections(count, nullptr);
    int64_t start = now() + 5'000'000, open_at = start + spread + settle, close_at = open_at + length;
    size_t begun = 0;
    Window window;
    latencies.reserve(static_cast<size_t>(length / gap + 2) * count);
    bool opened = false, closed = false;
    for (;;) {
        int64_t at = now();
        for (; begun < count && at >= start + spread / static_cast<int64_t>(count) * static_cast<int64_t>(begun); begun++)
            if (connections[begun].fd >= 0) ask(connections[begun], requests[begun % requests.size()], each_tokens);
        if (!opened && at >= open_at) window.open(), opened = true;
        if (!closed && at >= close_at) window.close(), closed = true;
        if (closed && (cut || !any_busy() || at > close_at + 3 * gap + 5 * wire::SECOND)) break;
        turn(0);
    }
    for (Connection& c : connections)
        if (!cut && c.busy) failed(c, "a stream had no end");
    report(window);
    number_out("expected_total", each_tokens * static_cast<int64_t>(count));
    quantiles_out("added_ns", latencies);
}

// One token a request. Lengths are the quantiles of a log-uniform law, in an order that is the same for every proxy.
void requests() {
    auto count = static_cast<size_t>(option("k", 8));
    int64_t settle = option("settle_ms", 500) * 1'000'000, length = option("window_ms", 4000) * 1'000'000;
    double low = static_cast<double>(option("from_tokens", 20)), high = static_cast<double>(option("to_tokens", 128'000));
    auto a_token = static_cast<double>(option("bytes_a_token", 4));
    auto most = static_cast<double>(option("most_bytes", 1 << 30));
    constexpr size_t VARIETY = 251;
    std::vector<std::string> pool;
    for (size_t each = 0; each < VARIETY; each++) {
        double share = (static_cast<double>(each * 97 % VARIETY) + 0.5) / VARIETY, tokens = low * std::pow(high / low, share);
        std::string user = "gap_us=0 prompt_tokens=" + std::to_string(static_cast<int64_t>(tokens));
        if (option("one_id", 0)) user += " one_id=1";
        pool.push_back(request(each % kinds(), 1, static_cast<int64_t>(std::min(most, tokens * a_token)), user, !option("whole", 0)));
    }
    size_t next = 0;
    tokens_are_measured = false;
    std::vector<int64_t> first_tokens;
    bool stopping = false;
    auto again = [&](Connection& c, int64_t) {
        if (in_window && c.measured) {
            totals.window_requests++;
            first_tokens.push_back(c.first_at - c.asked_at);
        } else if (in_window) {
            totals.window_requests++;
        }
        if (!stopping) ask(c, pool[next++ % VARIETY], 1);
    };
    open_connections(count, again);
    for (Connection& c : connections) ask(c, pool[next++ % VARIETY], 1);
    Window window;
    int64_t open_at = now() + settle, close_at = open_at + length;
    turns_until(open_at);
    window.open();
    while (now() < close_at) {
        turn(0);
        for (Connection& c : connections)
            if (c.fd < 0 && totals.errors < 100) ask(c, pool[next++ % VARIETY], 1);
    }
    window.close();
    stopping = true;
    for (int64_t patience = now() + 5 * wire::SECOND; any_busy() && now() < patience;) turn(0);
    report(window);
    quantiles_out("first_token_ns", first_tokens);
}

void prompt() {
    int64_t count = option("count", 40), pause = option("pause_ms", 20) * 1'000'000;
    std::string one = request(0, 1, option("bytes", 2'000'000), "gap_us=0", true);
    std::vector<int64_t> to_first, to_last, whole;
    auto read = [&](Connection& c, int64_t at) {
        if (!in_window) return;
        totals.window_requests++;
        to_first.push_back(c.first.read_first - c.asked_at);
        to_last.push_back(c.first.read_last - c.asked_at);
        whole.push_back(at - c.asked_at);
    };
    open_connections(1, read);
    Window window;
    for (int64_t each = -3; each < count && totals.errors == 0; each++) {
        if (each == 0) window.open();
        ask(connections[0], one, 1);
        for (int64_t patience = now() + 10 * wire::SECOND; connections[0].busy && now() < patience;) turn(0);
        turns_until(now() + pause);
    }
    window.close();
    report(window);
    quantiles_out("to_first_byte_ns", to_first);
    quantiles_out("to_last_byte_ns", to_last);
    quantiles_out("whole_ns", whole);
}

void ends() {
    auto count = static_cast<size_t>(option("n", 300));
    int64_t gap = option("gap_us", 20'000) * 1000, length = option("window_ms", 1000) * 1'000'000;
    int64_t end_at = now() + length;
    std::string user = "gap_us=" + std::to_string(gap / 1000) + " step=1 end_at=" + std::to_string(end_at);
    std::string streamed = request(0, 1'000'000, 2000, user, true), next = request(1, 1, 2000, "gap_us=0", true);
    std::vector<int64_t> first_tokens;
    auto then = [&](Connection& c, int64_t) {
        if (c.answers == 1) return ask(c, next, 1);
        first_tokens.push_back(c.first_at - c.asked_at);
        totals.window_requests++;
    };
    open_connections(count, then);
    for (Connection& c : connections) ask(c, streamed, 0);
    Window window;
    tokens_are_measured = false;
    turns_until(end_at - 20'000'000);
    window.open();
    for (int64_t patience = end_at + 10 * wire::SECOND; any_busy() && now() < patience;) turn(0);
    window.close();
    report(window);
    quantiles_out("first_token_ns", first_tokens);
}

// Plays one line of the input; what it leaves open is closed before the next.
void play(const std::string& line) {
    given.clear();
    size_t at = line.find(' ');
    std::string mode = line.substr(0, at);
    while (at != line.npos) {
        size_t end = line.find(' ', at + 1);
        std::string pair = line.substr(at + 1, end == line.npos ? end : end - at - 1);
        given[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
        at = end;
    }
    port = static_cast<int>(option("port", 0));
    totals = {};
    latencies.clear();
    busy = 0;
    tokens_are_measured = true;
    if (mode == "streams") streams();
    else if (mode == "requests") requests();
    else if (mode == "prompt") prompt();
    else if (mode == "ends") ends();
    else printf("{");
    printf("\"mode\":\"%s\"}\n", mode.c_str());
    fflush(stdout);
    for (Connection& c : connections)
        if (c.fd >= 0) close(c.fd);
    connections.clear();
    on_answer = nullptr;
}

}  // namespace

int main() {
    wire::take_all_files();
    fcntl(0, F_SETFL, O_NONBLOCK);
    events.add(0, Owner::Commands, 0, EPOLLIN);
    printf("%d\n", engine::open());
    fflush(stdout);
    std::string input;
    for (;;) {
        commands_wait = false;
        turn(engine::due.empty() ? -1 : 0);
        if (!commands_wait) continue;
        char buffer[4096];
        ssize_t got = read(0, buffer, sizeof buffer);
        if (got == 0) return 0;
        if (got > 0) input.append(buffer, static_cast<size_t>(got));
        for (size_t end; (end = input.find('\n')) != input.npos;) {
            std::string line = input.substr(0, end);
            input.erase(0, end + 1);
            play(line);
        }
    }
}
