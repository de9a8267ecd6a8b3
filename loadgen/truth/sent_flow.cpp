#include "loadgen/truth/sent_flow.h"

namespace pulsegate::load {

const SentFlow::Details SentFlow::none;

void SentFlow::connection_ended(QoS qos, bool session_kept) {
    if (qos == QoS::at_most_once) {
        if (read_ < next_) details().in_doubt.add(read_, next_);
        read_ = before_ping_ = next_;
    } else if (session_kept && acknowledged_ < next_) {
        details().sent_again.add(acknowledged_, next_);
    }
}

}  // namespace pulsegate::load
