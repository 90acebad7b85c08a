// The ground that engine and load stand on: the machine's monotonic clock, one epoll, sockets that do not block, and a few
// finders in HTTP and JSON text. Knows nothing of engines, and nothing of what is measured.
#pragma once

#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace wire {

constexpr int64_t SECOND = 1'000'000'000;
constexpr int STAMP_DIGITS = 16;  // nanoseconds of 115 days since the machine's start

[[noreturn]] inline void die(const char* what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

inline int64_t now() {
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

// As many files as the system lets this process have.
inline void take_all_files() {
    rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

inline sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

inline void no_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Whose an event is. A connection is named by a number and not by its address: an event may come for one that another event of
// the same turn has closed.
enum class Owner : uint32_t { Commands, Listener, EngineConnection, LoadConnection };

class Poll {
public:
    Poll() : fd_(epoll_create1(0)) {}

    void add(int fd, Owner owner, size_t number, uint32_t events) { control(EPOLL_CTL_ADD, fd, owner, number, events); }
    void change(int fd, Owner owner, size_t number, uint32_t events) { control(EPOLL_CTL_MOD, fd, owner, number, events); }

    // Events that are there now or come within so many milliseconds (-1: for ever).
    int wait(epoll_event* found, int most, int milliseconds) {
        int count = epoll_wait(fd_, found, most, milliseconds);
        if (count < 0 && errno != EINTR) die("epoll_wait");
        return count < 0 ? 0 : count;
    }

    static Owner owner(const epoll_event& event) { return static_cast<Owner>(event.data.u64 >> 32); }
    static size_t number(const epoll_event& event) { return event.data.u64 & 0xffffffff; }

private:
    void control(int what, int fd, Owner owner, size_t number, uint32_t events) {
        epoll_event event{};
        event.events = events;
        event.data.u64 = static_cast<uint64_t>(owner) << 32 | number;
        if (epoll_ctl(fd_, what, fd, &event) < 0) die("epoll_ctl");
    }
    int fd_;
};

inline Poll events;

// The place after `"name"` and its colon, or npos.
inline size_t after_key(std::string_view text, const char* name) {
    std::string key = std::string("\"") + name + "\"";
    size_t at = text.find(key);
    if (at == text.npos) return at;
    at += key.size();
    while (at < text.size() && (text[at] == ' ' || text[at] == ':')) at++;
    return at;
}

inline int64_t number_at(std::string_view text, size_t at, int64_t otherwise) {
    if (at == text.npos || at >= text.size() || text[at] < '0' || text[at] > '9') return otherwise;
    int64_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; at++) value = value * 10 + (text[at] - '0');
    return value;
}

inline int64_t number(std::string_view text, const char* name, int64_t otherwise) {
    return number_at(text, after_key(text, name), otherwise);
}

inline bool is_true(std::string_view text, const char* name) {
    size_t at = after_key(text, name);
    return at != text.npos && text.compare(at, 4, "true") == 0;
}

// The value of `name=` in a text of `name=value name=value`.
inline int64_t setting(std::string_view text, const char* name, int64_t otherwise) {
    std::string key = std::string(name) + "=";
    size_t at = text.find(key);
    return at == text.npos ? otherwise : number_at(text, at + key.size(), otherwise);
}

// The value of a header, in a head of any case; empty without it.
inline std::string header(std::string_view head, const char* name) {
    for (size_t at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 2)) {
        size_t size = strlen(name);
        if (strncasecmp(head.data() + at + 2, name, size) != 0 || head[at + 2 + size] != ':') continue;
        size_t begin = head.find_first_not_of(' ', at + 3 + size);
        return std::string(head.substr(begin, head.find("\r\n", begin) - begin));
    }
    return {};
}

// A body in chunks, from `at`: its bytes into `body`. False while it is not whole; `at` is then of no use.
inline bool dechunked(const std::string& in, size_t& at, std::string& body) {
    for (;;) {
        size_t end = in.find("\r\n", at);
        if (end == in.npos) return false;
        size_t size = strtoul(in.c_str() + at, nullptr, 16);
        if (in.size() < end + 2 + size + 2) return false;
        body.append(in, end + 2, size);
        at = end + 2 + size + 2;
        if (size == 0) return true;
    }
}

inline void put_stamp(char* into, int64_t value) {
    for (int place = STAMP_DIGITS - 1; place >= 0; place--, value /= 10) into[place] = static_cast<char>('0' + value % 10);
}

}  // namespace wire
