// The client's side of the bench: connections that ask, and take their answers apart into tokens. Knows HTTP and the instants in
// a token's content; knows no mode of load, and takes no byte of an answer for granted: an answer that is cut, or of another
// status, is an error, and the first one is kept in words.
#pragma once

#include "wire.hpp"

#include <algorithm>
#include <functional>
#include <vector>

namespace client {

using wire::events;
using wire::now;
using wire::Owner;
using wire::STAMP_DIGITS;

constexpr std::string_view CHAT = "\"content\":\"";
struct Stamps {
    int64_t sent = 0, read_first = 0, read_last = 0;
};

struct Connection {
    int fd = -1;
    bool busy = false, head_read = false, polled_for_write = false, chunked = false, measured = false;
    const std::string* out = nullptr;
    size_t written = 0, number = 0;
    int64_t asked_at = 0, first_at = 0, left_of_body = -1;
    Stamps first;
    std::string head, carry, line;
    int64_t left_of_chunk = 0;
    bool behind_chunk = false, behind_last = false;
    int64_t tokens = 0, wanted = 0, answers = 0;
};

struct Totals {
    int64_t tokens = 0, window_tokens = 0, window_requests = 0, window_bytes = 0, requests = 0, errors = 0;
    std::string error;
};
inline Totals totals;

inline std::vector<Connection> connections;
inline std::function<void(Connection&, int64_t)> on_answer;
inline std::vector<int64_t> latencies;  // ns, of the window
inline bool in_window = false, tokens_are_measured = true;
inline int port = 0;
inline int64_t busy = 0;  // ns with something to do, in the window

inline void failed(Connection& c, const std::string& why) {
    totals.errors++;
    if (totals.error.empty()) totals.error = why;
    if (c.fd >= 0) close(c.fd);
    c.fd = -1;
    c.busy = false;
}

inline bool connected(Connection& c) {
    c.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = wire::loopback(port);
    if (connect(c.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) {
        failed(c, std::string("connect: ") + strerror(errno));
        return false;
    }
    fcntl(c.fd, F_SETFL, O_NONBLOCK);
    wire::no_delay(c.fd);
    events.add(c.fd, Owner::LoadConnection, c.number, EPOLLIN);
    c.polled_for_write = false;
    return true;
}

inline void write_on(Connection& c) {
    while (c.out && c.written < c.out->size()) {
        ssize_t got = send(c.fd, c.out->data() + c.written, c.out->size() - c.written, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got < 0 && errno != EAGAIN) return failed(c, std::string("send: ") + strerror(errno));
        if (got < 0) {
            if (!c.polled_for_write) events.change(c.fd, Owner::LoadConnection, c.number, EPOLLIN | EPOLLOUT);
            c.polled_for_write = true;
            return;
        }
        c.written += static_cast<size_t>(got);
    }
    if (c.polled_for_write) events.change(c.fd, Owner::LoadConnection, c.number, EPOLLIN);
    c.polled_for_write = false;
}

inline void ask(Connection& c, const std::string& request, int64_t tokens) {
    if (c.fd < 0 && !connected(c)) return;
    c.busy = true;
    c.head_read = c.chunked = false;
    c.measured = in_window;
    c.out = &request;
    c.written = 0;
    c.first_at = 0;
    c.left_of_body = -1;
    c.first = {};
    c.head.clear(), c.carry.clear(), c.line.clear();
    c.left_of_chunk = 0;
    c.behind_chunk = c.behind_last = false;
    c.tokens = 0;
    c.wanted = tokens;
    c.asked_at = now();
    write_on(c);
}

// A token's content: one instant, or three of the first token.
inline void token(Connection& c, std::string_view content, int64_t at) {
    Stamps stamps;
    stamps.sent = wire::number_at(content, 0, 0);
    if (content.size() > 2 * STAMP_DIGITS) {
        stamps.read_first = wire::number_at(content, STAMP_DIGITS + 1, 0);
        stamps.read_last = wire::number_at(content, 2 * (STAMP_DIGITS + 1), 0);
    }
    c.tokens++;
    totals.tokens++;
    if (c.tokens == 1) {
        c.first_at = at;
        c.first = stamps;
    }
    if (in_window) {
        totals.window_tokens++;
        if (tokens_are_measured) latencies.push_back(at - stamps.sent);
    }
}

inline void read_tokens(Connection& c, std::string_view data, int64_t at) {
    if (!c.carry.empty()) {
        c.carry.append(data);
        data = c.carry;
    }
    size_t from = 0;
    for (;;) {
        size_t found = data.find(CHAT, from);
        if (found == data.npos) {
            from = std::max(from, data.size() - std::min(data.size(), CHAT.size() - 1));
            break;
        }
        size_t begin = found + CHAT.size(), end = data.find('"', begin);
        if (end == data.npos) {
            from = found;
            break;
        }
        if (end > begin) token(c, data.substr(begin, end - begin), at);
        from = end;
    }
    std::string rest(data.substr(from));
    c.carry = std::move(rest);
}

// Takes bytes of a chunked body (RFC 9112 7.1): a proxy may cut a token into two chunks. True once the last chunk has ended.
inline bool take_chunks(Connection& c, std::string_view data, int64_t at) {
    while (!data.empty()) {
        if (c.left_of_chunk > 0) {
            size_t taken = std::min(data.size(), static_cast<size_t>(c.left_of_chunk));
            read_tokens(c, data.substr(0, taken), at);
            data.remove_prefix(taken);
            c.left_of_chunk -= static_cast<int64_t>(taken);
            c.behind_chunk = c.left_of_chunk == 0;
            continue;
        }
        size_t end = data.find('\n');
        c.line.append(data.substr(0, end));
        if (end == data.npos) return false;
        data.remove_prefix(end + 1);
        std::string line = std::move(c.line);
        c.line.clear();
        if (c.behind_last && line == "\r") return true;
        if (!c.behind_chunk && !c.behind_last) {
            c.left_of_chunk = strtoll(line.c_str(), nullptr, 16);
            c.behind_last = c.left_of_chunk == 0;
        }
        c.behind_chunk = false;
    }
    return false;
}

// Takes bytes of an answer; true once it is whole.
inline bool take(Connection& c, std::string_view data, int64_t at) {
    if (!c.head_read) {
        c.head.append(data);
        size_t end = c.head.find("\r\n\r\n");
        if (end == c.head.npos) return false;
        c.head_read = true;
        std::string lower = c.head.substr(0, end + 2);
        for (char& letter : lower) letter = static_cast<char>(tolower(letter));
        if (lower.compare(0, 5, "http/") != 0 || lower.compare(8, 5, " 200 ") != 0) {
            failed(c, "answered " + c.head.substr(0, 15) + c.head.substr(std::min(end, c.head.size()), 300));
            return false;
        }
        size_t length = lower.find("\r\ncontent-length:");
        c.chunked = lower.find("\r\ntransfer-encoding:") != lower.npos;
        if (length != lower.npos) c.left_of_body = atoll(lower.c_str() + length + 17);
        data = std::string_view(c.head).substr(end + 4);
    }
    if (data.empty() && c.left_of_body != 0) return false;
    if (in_window) totals.window_bytes += static_cast<int64_t>(data.size());
    if (c.chunked) return take_chunks(c, data, at);
    read_tokens(c, data, at);
    if (c.left_of_body < 0) return false;
    c.left_of_body -= static_cast<int64_t>(data.size());
    return c.left_of_body <= 0;
}

inline void on_event(Connection& c, uint32_t what) {
    static char buffer[1 << 18];
    if (c.fd >= 0 && what & EPOLLOUT) write_on(c);
    while (c.fd >= 0) {
        ssize_t got = recv(c.fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return;
        int64_t at = now();
        if (got <= 0) {
            if (c.busy) return failed(c, "closed within an answer");
            close(c.fd), c.fd = -1;
            return;
        }
        if (!c.busy) return failed(c, "bytes after an answer");
        if (take(c, {buffer, static_cast<size_t>(got)}, at)) {
            c.busy = false;
            c.answers++;
            totals.requests++;
            if (c.wanted && c.tokens != c.wanted)
                failed(c, "an answer of " + std::to_string(c.tokens) + " tokens instead of " + std::to_string(c.wanted));
            else if (on_answer)
                on_answer(c, at);
        }
        if (static_cast<size_t>(got) < sizeof buffer) return;
    }
}

}  // namespace client
