// A vLLM without a model: it answers as vLLM 0.32 writes to the wire, at the pace that each request asks for. It has no setting
// of its own. A request states `max_tokens` (or `max_completion_tokens`), and in its `user` text
//   gap_us=20000     between tokens, of this stream (0: all at once)
//   step=1           tokens come at whole multiples of the gap, so that all streams speak in the same step
//   end_at=NS        the stream ends with the first step after this instant, whatever max_tokens says
//   prompt_tokens=N  of the usage; else a quarter of the body's bytes
//   one_id=1         the answer has the id of all answers that are asked for so; else one of its own
// and `logprobs`, as in vLLM's API. `user`, because a proxy that writes bodies anew keeps it.
// The content of each token is the instant at which it was handed to the kernel: nanoseconds of the monotonic clock, 16 digits.
// The first token's has two more: the instants at which the body's first and last byte were read.
// GET /health, /version, /v1/models and /metrics are vLLM's; the metrics count what was really sent.

#pragma once

#include "wire.hpp"

#include <algorithm>
#include <memory>
#include <queue>
#include <vector>

namespace engine {

using wire::events;
using wire::now;
using wire::Owner;
using wire::STAMP_DIGITS;

constexpr const char* MODEL_LARGE = "meta-llama/Llama-3.3-70B-Instruct";
constexpr const char* MODEL_SMALL = "meta-llama/Llama-3.1-8B-Instruct";
constexpr size_t PARAMETERS_WITHIN = 1024;  // bytes of the begin and of the end of a body, where its parameters stand
constexpr size_t MOST_UNSENT = 4 << 20;

struct Counts {
    int64_t requests = 0, tokens = 0, prompt_tokens = 0, running = 0, aborted = 0;
};
inline Counts counts;

inline std::string hexadecimal(size_t value) {
    char text[20];
    snprintf(text, sizeof text, "%zx", value);
    return text;
}

inline std::string chunk(const std::string& data) { return hexadecimal(data.size()) + "\r\n" + data + "\r\n"; }

struct Connection {
    int fd;
    std::string in, out;
    size_t wanted = 0;  // bytes of the request that is being read, once its head is there
    bool closed = false, polled_for_write = false;

    // The answer in progress:
    bool streaming = false, chat = true, usage = false;
    int64_t left = 0, gap = 0, due = 0, end_at = 0, sent = 0, prompt_tokens = 0;
    int64_t read_first = 0, read_last = 0, first_token = 0;
    bool in_step = false, busy = false;
    std::string id, model, head, token;
    size_t stamp_at = 0;
};

struct Due {
    int64_t at;
    std::shared_ptr<Connection> connection;
    bool operator<(const Due& other) const { return at > other.at; }
};

inline std::priority_queue<Due> due;
inline std::vector<std::shared_ptr<Connection>> connections;  // by fd

inline void close_connection(Connection& c) {
    if (c.closed) return;
    c.closed = true;
    if (c.busy) counts.running--, counts.aborted++;
    close(c.fd);
    connections[static_cast<size_t>(c.fd)].reset();
}

inline void write_out(Connection& c, const char* data, size_t size) {
    if (c.closed) return;
    size_t done = 0;
    if (c.out.empty()) {
        ssize_t got = send(c.fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got < 0 && errno != EAGAIN) return close_connection(c);
        done = got < 0 ? 0 : static_cast<size_t>(got);
    }
    if (done == size) return;
    c.out.append(data + done, size - done);
    if (c.out.size() > MOST_UNSENT) return close_connection(c);
    if (!c.polled_for_write) events.change(c.fd, Owner::EngineConnection, static_cast<size_t>(c.fd), EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    c.polled_for_write = true;
}

inline void write_rest(Connection& c) {
    ssize_t got = send(c.fd, c.out.data(), c.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (got < 0 && errno != EAGAIN) return close_connection(c);
    if (got > 0) c.out.erase(0, static_cast<size_t>(got));
    if (c.out.empty()) {
        events.change(c.fd, Owner::EngineConnection, static_cast<size_t>(c.fd), EPOLLIN | EPOLLRDHUP);
        c.polled_for_write = false;
    }
}

inline void answer(Connection& c, const char* status, const char* type, const std::string& body) {
    std::string all = std::string("HTTP/1.1 ") + status + "\r\ndate: Mon, 23 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\n" +
                      "content-length: " + std::to_string(body.size()) + "\r\ncontent-type: " + type + "\r\n\r\n" + body;
    write_out(c, all.data(), all.size());
}

inline std::string times(const Connection& c, int64_t at) {
    double queue = 0.004, prefill = static_cast<double>(c.first_token - c.read_last) / 1e6;
    double decode = static_cast<double>(at - c.first_token) / 1e6;
    char mean[64] = "", text[320];
    if (c.sent > 1) snprintf(mean, sizeof mean, "\"mean_itl_ms\":%.15g,", decode / static_cast<double>(c.sent - 1));
    snprintf(text, sizeof text,
             "\"metrics\":{\"time_to_first_token_ms\":%.15g,\"generation_time_ms\":%.15g,\"queue_time_ms\":%.15g,%s"
             "\"tokens_per_second\":%.14g}",
             prefill, decode, queue, mean, 1e3 * static_cast<double>(c.sent) / (queue + prefill + decode + 1e-6));
    return text;
}

inline std::string usage(const Connection& c) {
    char text[256];
    snprintf(text, sizeof text,
             "\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld,\"completion_tokens\":%lld,"
             "\"prompt_tokens_details\":{\"cached_tokens\":0,\"created_cache_tokens\":0}}",
             static_cast<long long>(c.prompt_tokens), static_cast<long long>(c.prompt_tokens + c.sent),
             static_cast<long long>(c.sent));
    return text;
}

inline std::string common(const Connection& c, const char* object) {
    return "{\"id\":\"" + c.id + "\",\"object\":\"" + object + "\",\"created\":1795146063,\"model\":\"" + c.model + "\",";
}

// A chunk of the stream with `content`, and the place of the first of its bytes.
inline std::string token_event(const Connection& c, const std::string& content, const char* end, bool logprobs, size_t& content_at) {
    std::string text = "data: " + common(c, c.chat ? "chat.completion.chunk" : "text_completion") + "\"choices\":[{\"index\":0,";
    std::string probabilities = "null", ids = "null";
    if (logprobs) {
        probabilities =
            "{\"content\":[{\"token\":\"stsoso\",\"logprob\":-7.856630325317383,\"bytes\":[115,116,115,111,115,111],"
            "\"top_logprobs\":[{\"token\":\"stsoso\",\"logprob\":-7.856630325317383,\"bytes\":[115,116,115,111,115,111]},"
            "{\"token\":\" laougr\",\"logprob\":-6.396669387817383,\"bytes\":[32,108,97,111,117,103,114]}]}]}";
        ids = "[128041]";
    }
    text += c.chat ? "\"delta\":{\"content\":\"" : "\"text\":\"";
    content_at = text.size();
    text += content + (c.chat ? "\"}," : "\",") + "\"logprobs\":" + probabilities + ",\"finish_reason\":" + end +
            ",\"token_ids\":" + ids + "}]}\n\n";
    std::string whole = chunk(text);
    content_at += whole.size() - 2 - text.size();
    return whole;
}

inline std::string stamp(int64_t at) {
    char text[STAMP_DIGITS];
    wire::put_stamp(text, at);
    return {text, STAMP_DIGITS};
}

inline void finished(Connection& c) {
    c.busy = false;
    counts.running--;
    counts.requests++;
}

// The next token of a stream, with all that vLLM writes before the first and after the last one.
inline void next_token(const std::shared_ptr<Connection>& owner) {
    Connection& c = *owner;
    if (c.closed || !c.busy) return;
    bool first = c.sent == 0;
    bool last = c.left == 1 || (c.end_at && c.due >= c.end_at);
    c.left--;
    c.sent++;
    counts.tokens++;
    int64_t at = now();
    if (!first && !last) {
        wire::put_stamp(c.token.data() + c.stamp_at, at);
        write_out(c, c.token.data(), c.token.size());
    } else {
        std::string all;
        size_t ignored;
        if (first) {
            c.first_token = at;
            all = "HTTP/1.1 200 OK\r\ndate: Mon, 23 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\n"
                  "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
            if (c.chat)
                all += chunk("data: " + common(c, "chat.completion.chunk") +
                             "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                             "\"finish_reason\":null}],\"prompt_token_ids\":null,\"prompt_text\":null}\n\n");
        }
        std::string content = stamp(at);
        if (first) content += " " + stamp(c.read_first) + " " + stamp(c.read_last);
        all += token_event(c, content, last ? "\"length\",\"stop_reason\":null" : "null", c.token.size() > 400, ignored);
        if (last) {
            if (c.usage)
                all += chunk("data: " + common(c, c.chat ? "chat.completion.chunk" : "text_completion") + "\"choices\":[]," +
                             usage(c) + ",\"system_fingerprint\":\"vllm-0.32.0-42004880\"," + times(c, at) + "}\n\n");
            all += chunk("data: [DONE]\n\n") + "0\r\n\r\n";
            finished(c);
        }
        write_out(c, all.data(), all.size());
    }
    if (c.busy && !c.closed) {
        c.due += c.gap;  // a late token does not move those after it
        due.push({c.due, owner});
    }
}

inline void whole_answer(Connection& c) {
    int64_t at = now();
    c.first_token = at;
    c.sent = std::max<int64_t>(1, c.left);
    counts.tokens += c.sent;
    std::string content = stamp(at) + " " + stamp(c.read_first) + " " + stamp(c.read_last);
    for (int64_t more = 1; more < c.sent; more++) content += " token";
    std::string body = common(c, c.chat ? "chat.completion" : "text_completion") + "\"choices\":[{\"index\":0," +
                       (c.chat ? "\"message\":{\"role\":\"assistant\",\"content\":\"" + content + "\"}" : "\"text\":\"" + content + "\"") +
                       ",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null,\"token_ids\":null}]," + usage(c) +
                       ",\"system_fingerprint\":\"vllm-0.32.0-42004880\"," + times(c, at) + "}";
    finished(c);
    answer(c, "200 OK", "application/json", body);
}

inline void generate(const std::shared_ptr<Connection>& owner, std::string_view body, bool chat) {
    Connection& c = *owner;
    std::string edges;
    if (body.size() <= 2 * PARAMETERS_WITHIN)
        edges = body;
    else
        edges = std::string(body.substr(0, PARAMETERS_WITHIN)) + " " + std::string(body.substr(body.size() - PARAMETERS_WITHIN));
    static int64_t number_of_answers = 0;
    char id[32];
    int64_t number = wire::setting(edges, "one_id", 0) ? 0 : ++number_of_answers;
    snprintf(id, sizeof id, "%016llx", 0x9fca44022d2acf5eULL + static_cast<unsigned long long>(number) * 0x9e3779b97f4a7c15ULL);
    c.chat = chat;
    c.id = std::string(chat ? "chatcmpl-" : "cmpl-") + id;
    c.model = edges.find("8B-Instruct") != edges.npos ? MODEL_SMALL : MODEL_LARGE;
    c.left = std::max<int64_t>(1, wire::number(edges, "max_tokens", wire::number(edges, "max_completion_tokens", 16)));
    c.gap = wire::setting(edges, "gap_us", 20'000) * 1000;
    c.in_step = wire::setting(edges, "step", 0) != 0;
    c.end_at = wire::setting(edges, "end_at", 0);
    c.prompt_tokens = wire::setting(edges, "prompt_tokens", static_cast<int64_t>(body.size() / 4));
    c.streaming = wire::is_true(edges, "stream");
    c.usage = wire::is_true(edges, "include_usage");
    c.sent = 0;
    c.busy = true;
    counts.running++;
    counts.prompt_tokens += c.prompt_tokens;
    if (!c.streaming) return whole_answer(c);
    c.token = token_event(c, std::string(STAMP_DIGITS, '0'), "null", wire::is_true(edges, "logprobs"), c.stamp_at);
    c.due = now();
    if (c.in_step && c.gap > 0) {
        c.due += c.gap - c.due % c.gap;
        due.push({c.due, owner});
    } else {
        next_token(owner);
    }
}

inline std::string metrics() {
    char text[2048];
    snprintf(text, sizeof text,
             "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"%s\"} %lld\n"
             "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"%s\"} 0\n"
             "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"%s\"} 0.25\n"
             "# TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total{engine=\"0\",model_name=\"%s\"} 0\n"
             "# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total{engine=\"0\",model_name=\"%s\"} %lld\n"
             "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{engine=\"0\",model_name=\"%s\"} %lld\n"
             "# TYPE vllm:request_success counter\n"
             "vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"%s\"} %lld\n"
             "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\",model_name=\"%s\"} %lld\n",
             MODEL_LARGE, static_cast<long long>(counts.running), MODEL_LARGE, MODEL_LARGE, MODEL_LARGE, MODEL_LARGE,
             static_cast<long long>(counts.prompt_tokens), MODEL_LARGE, static_cast<long long>(counts.tokens), MODEL_LARGE,
             static_cast<long long>(counts.requests), MODEL_LARGE, static_cast<long long>(counts.aborted));
    return text;
}

inline std::string models() {
    std::string text = "{\"object\":\"list\",\"data\":[";
    for (const char* model : {MODEL_LARGE, MODEL_SMALL})
        text += std::string(model == MODEL_LARGE ? "" : ",") + "{\"id\":\"" + model +
                "\",\"object\":\"model\",\"created\":1795146063,\"owned_by\":\"vllm\",\"root\":\"" + model +
                "\",\"parent\":null,\"max_model_len\":131072}";
    return text + "]}";
}

inline void handle(const std::shared_ptr<Connection>& owner, std::string_view head, std::string_view body) {
    Connection& c = *owner;
    std::string_view line = head.substr(0, head.find("\r\n"));
    auto is = [&](const char* start) { return line.compare(0, strlen(start), start) == 0; };
    if (is("POST /v1/chat/completions ")) return generate(owner, body, true);
    if (is("POST /v1/completions ")) return generate(owner, body, false);
    if (is("GET /health ") || is("GET /ping ")) return answer(c, "200 OK", "text/plain", "");
    if (is("GET /version ")) return answer(c, "200 OK", "application/json", "{\"version\":\"0.32.0\"}");
    if (is("GET /v1/models ")) return answer(c, "200 OK", "application/json", models());
    if (is("GET /metrics ")) return answer(c, "200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics());
    answer(c, "404 Not Found", "application/json", "{\"detail\":\"Not Found\"}");
}

inline void take(const std::shared_ptr<Connection>& owner) {
    Connection& c = *owner;
    while (!c.closed && !c.busy && c.in.size() >= c.wanted) {
        size_t end = c.in.find("\r\n\r\n");
        if (end == c.in.npos) return;
        std::string_view head(c.in.data(), end + 2);
        std::string chunked, length = wire::header(head, "content-length");
        size_t next = end + 4;
        if (!wire::header(head, "transfer-encoding").empty()) {
            if (c.in.size() > next && !c.read_first) c.read_first = now();
            if (!wire::dechunked(c.in, next, chunked)) return;
        } else {
            next += strtoul(length.c_str(), nullptr, 10);
            c.wanted = next;
            if (c.in.size() > end + 4 && !c.read_first) c.read_first = now();
            if (c.in.size() < next) return;
        }
        c.read_last = now();
        if (!c.read_first) c.read_first = c.read_last;
        if (chunked.empty())
            handle(owner, head, std::string_view(c.in).substr(end + 4, next - end - 4));
        else
            handle(owner, head, chunked);
        c.in.erase(0, next);
        c.wanted = 0;
        c.read_first = 0;
    }
}

inline void readable(const std::shared_ptr<Connection>& owner) {
    static char buffer[1 << 18];
    Connection& c = *owner;
    while (!c.closed) {
        ssize_t got = recv(c.fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got <= 0) {
            if (got == 0 || errno != EAGAIN) close_connection(c);
            break;
        }
        c.in.append(buffer, static_cast<size_t>(got));
        if (c.wanted > c.in.capacity()) c.in.reserve(c.wanted);
        if (!c.busy) take(owner);
        if (static_cast<size_t>(got) < sizeof buffer) break;
    }
}

// Listens on a free port of loopback, and returns it.
inline int open() {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address = wire::loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) < 0) wire::die("bind");
    if (listen(listener, 4096) < 0) wire::die("listen");
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    events.add(listener, Owner::Listener, static_cast<size_t>(listener), EPOLLIN);
    return ntohs(address.sin_port);
}

inline void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        wire::no_delay(fd);
        auto place = static_cast<size_t>(fd);
        if (connections.size() <= place) connections.resize(place + 1);
        connections[place] = std::make_shared<Connection>();
        connections[place]->fd = fd;
        events.add(fd, Owner::EngineConnection, place, EPOLLIN | EPOLLRDHUP);
    }
}

inline void on_event(size_t fd, uint32_t what) {
    std::shared_ptr<Connection> owner = fd < connections.size() ? connections[fd] : nullptr;
    if (!owner) return;
    if (!owner->out.empty() && what & EPOLLOUT) write_rest(*owner);
    if (what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) readable(owner);
}

// Sends all tokens that are due; returns whether there was one.
inline bool on_time() {
    bool any = false;
    for (int64_t at = now(); !due.empty() && due.top().at <= at; any = true) {
        std::shared_ptr<Connection> owner = due.top().connection;
        due.pop();
        next_token(owner);
        if (!owner->closed && !owner->busy) take(owner);  // a request that came before the answer's end
    }
    return any;
}

}  // namespace engine
