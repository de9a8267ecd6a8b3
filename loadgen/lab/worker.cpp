#include "loadgen/lab/worker.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "loadgen/lab/control_link.h"
#include "loadgen/lab/layout.h"
#include "loadgen/lab/work_order.h"
#include "loadgen/net/address.h"
#include "loadgen/net/loop.h"
#include "loadgen/observe/machine_load.h"
#include "loadgen/observe/own_load.h"
#include "loadgen/swarm/swarm.h"
#include "loadgen/version.h"

namespace pulsegate::load {

namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

/// A worker reports every second. While the end is near, the coordinator wants to know soon that
/// everything has arrived.
constexpr Duration sample_at_end = 200ms;
constexpr Duration look_every = 50ms;

/// The time that sending the DISCONNECTs of all clients may take.
constexpr Duration leave_within = 300ms;

/// The orders for a worker with a plan.
constexpr std::array<std::string_view, 7> orders{"start", "go",    "drain", "stop",
                                                 "flows", "judge", "end"};

/// The worker's side of the control connection, around the swarm of its clients.
class Worker : public Loop::Owner, public Loop::Handler {
public:
    explicit Worker(Descriptor socket) : link_(std::move(socket)) {}

    /// Introduces this worker to a coordinator on another machine, which can't see how busy this
    /// machine is.
    void introduce(const std::string& token) {
        machine_.emplace();
        link_.send(FrameKind::token, token);
    }

    int run() {
        if (!loop_.watch(link_.fd(), *this)) return EXIT_FAILURE;
        loop_.run(*this);
        return status_;
    }

private:
    enum class Stage { idle, preparing, ramping, running, draining, leaving };

    // -- the event loop --

    // Events are edge-triggered, so this reads until nothing more comes.
    void ready(std::uint32_t) override {
        for (bool took = true; took;) {
            took = false;
            const bool alive = link_.move();
            while (const auto frame = link_.next()) {
                took = true;
                hear(*frame);
            }
            if (!alive) return be_left();
        }
    }

    Time turn(Time now, Duration late) override {
        if (stage_ == Stage::leaving && now >= leave_at_) finish();
        if (!swarm_) return Time::max();
        Time next = swarm_->turn(now, late);
        if (now >= next_look_) {
            next_look_ = now + look_every;
            look(now);
        }
        next = std::min(next, next_look_);
        return stage_ == Stage::leaving ? std::min(next, leave_at_) : next;
    }

    void look(Time now) {
        if (stage_ == Stage::ramping && !told_ && swarm_->ramped()) tell("ramped");
        if (stage_ == Stage::running && !told_ && swarm_->settled()) tell("settled");
        if (stage_ == Stage::draining && !told_ && swarm_->drained()) tell("drained");
        const bool begun =
            stage_ == Stage::ramping || stage_ == Stage::running || stage_ == Stage::draining;
        const bool at_end = stage_ == Stage::draining && now >= last_sample_ + sample_at_end;
        if (begun && (at_end || second_of(now) > second_)) send_sample(now);
    }

    void enter(Stage stage) {
        stage_ = stage;
        told_ = false;
        next_look_ = {};
        loop_.wake_at(Clock::now());
    }

    // -- what the coordinator says --

    void hear(const Frame& frame) try {
        if (frame.kind == FrameKind::flows) {
            if (swarm_ && !swarm_->add_flows(as_bytes(frame.body)))
                throw std::runtime_error("it was sent totals that can't be understood");
            return;
        }
        const auto message = json::parse(frame.body).as_object();
        obey(message.at("type").as_string(), message);
    } catch (const std::exception& error) {
        send({{"type", "error"}, {"text", error.what()}});
    }

    void obey(std::string_view type, const json::object& message) {
        const Time now = Clock::now();
        if (type == "time")
            return send({{"type", "time"}, {"now", now.time_since_epoch().count()}});
        if (type == "refused") return give_up(json::value_to<std::string>(message.at("text")));
        if (type == "plan") return prepare(message);
        if (std::ranges::find(orders, type) == orders.end())
            throw std::runtime_error(fmt::format(
                "it does not know the order '{}'; is the coordinator of another version?", type));
        if (!swarm_) return;  // its plan could not be carried out
        if (type == "start") start(time_in(message));
        if (type == "go") go(time_in(message));
        if (type == "drain" || type == "stop") drain(now);
        if (type == "flows") send_flows(now);
        if (type == "judge") judge(now);
        if (type == "end") leave(now);
    }

    static Time time_in(const json::object& message) {
        return Time(Duration(message.at("at").to_number<std::int64_t>()));
    }

    void prepare(const json::object& plan) {
        if (plan.at("version").as_string() != program_version())
            throw std::runtime_error(
                fmt::format("it is version {} and the coordinator is {}; install the same",
                            program_version(), std::string_view(plan.at("version").as_string())));
        assignment_ = assignment_of(work_order_from(plan));
        check_share(assignment_.scenario, assignment_.workers, survey_limits());
        swarm_ = std::make_unique<Swarm>(loop_, assignment_);
        enter(Stage::preparing);
        tell("ready");
    }

    void start(Time at) {
        started_ = at;
        second_ = 0;
        load_.emplace(Clock::now());
        swarm_->start(at);
        enter(Stage::ramping);
    }

    void go(Time at) {
        swarm_->go(at);
        enter(Stage::running);
    }

    void drain(Time now) {
        swarm_->drain(now);
        enter(Stage::draining);
    }

    void send_flows(Time now) {
        send_sample(now);
        for (const auto& flows : swarm_->flows()) link_.send(FrameKind::flows, flows.body);
        tell("flows-sent");
    }

    void judge(Time now) {
        swarm_->judge(now);
        send_sample(now);
        send({{"type", "done"},
              {"examples", json::value_from(swarm_->examples())},
              {"notes", json::value_from(swarm_->notes())}});
    }

    void leave(Time now) {
        swarm_->close_all();
        leave_at_ = now + leave_within;
        enter(Stage::leaving);
    }

    /// The coordinator may have another run for us.
    void finish() {
        swarm_.reset();
        stage_ = Stage::idle;
        if (left_) loop_.stop();
    }

    void be_left() {
        left_ = true;
        if (!swarm_) return loop_.stop();
        if (stage_ != Stage::leaving) leave(Clock::now());
    }

    void give_up(const std::string& why) {
        fmt::print(stderr, "pulsegate-loadgen: the coordinator refused this worker: {}\n", why);
        status_ = EXIT_FAILURE;
        loop_.stop();
    }

    // -- what it hears --

    void send(const json::object& message) {
        link_.send(FrameKind::json, json::serialize(message));
    }

    void tell(const char* type) {
        told_ = true;
        send({{"type", type}});
    }

    void send_sample(Time now) {
        auto seconds = swarm_->take_samples(now);
        const auto current = second_of(now);
        if (current > second_) {
            load_->sample(now, seconds[second_]);
            if (machine_) machine_->sample(seconds[second_]);
        }
        second_ = std::max(second_, current);
        last_sample_ = now;
        json::array rows;
        for (const auto& [second, measurements] : seconds)
            rows.push_back(
                json::object{{"second", second}, {"measurements", to_json(measurements)}});
        send({{"type", "sample"}, {"seconds", std::move(rows)}});
        for (const auto& [at, text] : swarm_->take_marks())
            send({{"type", "mark"}, {"at", at}, {"text", text}});
    }

    std::uint32_t second_of(Time now) const {
        return static_cast<std::uint32_t>(std::max(0.0, seconds(now - started_)));
    }

    Loop loop_;
    ControlLink link_;
    Assignment assignment_;
    std::unique_ptr<Swarm> swarm_;
    std::optional<OwnLoad> load_;
    std::optional<MachineLoad> machine_;
    Stage stage_ = Stage::idle;
    bool told_ = false;  ///< has reported what the coordinator waits for in this stage
    bool left_ = false;  ///< the coordinator has left
    int status_ = EXIT_SUCCESS;
    Time started_{};
    std::uint32_t second_ = 0;  ///< the second that the next sample reports
    Time last_sample_{};
    Time next_look_{};
    Time leave_at_{};
};

Descriptor connection_to(const std::string& host, std::uint16_t port) {
    std::string trouble;
    for (const auto& address : resolve(host, port)) {
        Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(socket.get(), address.get(), address.size()) == 0) {
            const int on = 1;
            ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
            return socket;
        }
        trouble = std::strerror(errno);
    }
    throw std::runtime_error(fmt::format(
        "--coordinator: no coordinator at {}:{}: {}; start it first, with --coordinator-listen {}",
        host, port, trouble, port));
}

}  // namespace

int work_for_parent(int socket) { return Worker(Descriptor(socket)).run(); }

int work_for(const std::string& host, std::uint16_t port, const std::string& token) {
    Worker worker(connection_to(host, port));
    worker.introduce(token);
    return worker.run();
}

}  // namespace pulsegate::load
