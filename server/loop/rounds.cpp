#include "server/loop/rounds.h"

#include <boost/asio/post.hpp>

namespace pulsegate {

Rounds::Rounds(boost::asio::io_context& context, Task take_mail)
    : context_(context), take_mail_(std::move(take_mail)), clients_(context, poller_.descriptor()) {
    watch();
}

Rounds::~Rounds() { clients_.release(); }  // the poller closes it

/// Asio looks at the set when it is told to wait: what a batch has left is reported at once.
void Rounds::watch() {
    clients_.async_wait(Clients::wait_read, [this](const boost::system::error_code& error) {
        if (error) return;
        serve_batch();
        watch();
    });
}

void Rounds::serve_batch() {
    begin();
    poller_.poll();
    take_mail_();  // behind the poll: what was sent before a packet arrived is here by now
    poller_.dispatch();
    end();
}

void Rounds::wake() {
    boost::asio::post(context_, [this] { run(take_mail_); });
}

void Rounds::later(Task task) {
    thread_.assert_here();
    left_.push_back(std::move(task));
    if (!under_way_) go_on();
}

void Rounds::begin() {
    thread_.assert_here();
    guard();
    under_way_ = true;
    ++round_;
    began_ = monotonic_now();
}

void Rounds::end() {
    running_.swap(left_);
    for (const Task& task : running_) task();
    running_.clear();
    under_way_ = false;
    if (!left_.empty()) go_on();
}

/// Work that is left waits for the clients' next batch, so clients get their turns in between.
void Rounds::go_on() {
    if (std::exchange(going_on_, true)) return;
    boost::asio::post(context_, [this] {
        going_on_ = false;
        serve_batch();
    });
}

}  // namespace pulsegate
