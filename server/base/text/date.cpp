#include "server/base/text/date.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace pulsegate {

namespace {

constexpr std::array<std::string_view, 7> day_names{"Sun", "Mon", "Tue", "Wed",
                                                    "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> month_names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// Reads from left to right. What is not as it should be is remembered, and asked for at the end.
class DateReader {
public:
    explicit DateReader(std::string_view text) : rest_(text) {}

    bool done() const { return good_ && rest_.empty(); }

    bool next_is(std::string_view any_of) const {
        return !rest_.empty() && any_of.find(rest_.front()) != any_of.npos;
    }
    void expect(std::string_view any_of) {
        good_ = good_ && next_is(any_of);
        if (good_) rest_.remove_prefix(1);
    }
    int number(int length, int most) {
        int number = 0;
        for (; length > 0; --length) number = number * 10 + digit();
        good_ = good_ && number <= most;
        return number;
    }
    /// Thousandths, of any number of digits behind the point.
    int fraction() {
        int thousandths = digit() * 100;
        for (int place = 10; next_is(digits); place /= 10) thousandths += digit() * place;
        return thousandths;
    }

private:
    int digit() {
        const int digit = rest_.empty() ? 0 : rest_.front() - '0';
        expect(digits);
        return good_ ? digit : 0;
    }

    static constexpr std::string_view digits = "0123456789";

    std::string_view rest_;
    bool good_ = true;
};

/// The minutes to subtract.
int offset_in(DateReader& in) {
    if (in.next_is("Zz")) {
        in.expect("Zz");
        return 0;
    }
    const int sign = in.next_is("-") ? -1 : 1;
    in.expect("+-");
    const int hours = in.number(2, 23);
    in.expect(":");
    return sign * (hours * 60 + in.number(2, 59));
}

}  // namespace

std::optional<WallMillis> parse_rfc3339(std::string_view text) {
    using namespace std::chrono;
    DateReader in(text);
    const int y = in.number(4, 9999);
    in.expect("-");
    const int m = in.number(2, 12);
    in.expect("-");
    const int d = in.number(2, 31);
    in.expect("Tt ");
    const hours hour{in.number(2, 23)};
    in.expect(":");
    const minutes minute{in.number(2, 59)};
    in.expect(":");
    const seconds second{in.number(2, 60)};  // a leap second
    milliseconds fraction{0};
    if (in.next_is(".")) {
        in.expect(".");
        fraction = milliseconds(in.fraction());
    }
    const minutes offset{offset_in(in)};
    const year_month_day date{year{y}, month{static_cast<unsigned>(m)},
                              day{static_cast<unsigned>(d)}};
    if (!in.done() || !date.ok()) return std::nullopt;
    const milliseconds time = sys_days(date).time_since_epoch() + hour + minute + second - offset;
    return (time + fraction).count();
}

std::string http_date(WallMillis when) {
    using namespace std::chrono;
    const auto time = floor<seconds>(sys_time<milliseconds>(milliseconds(when)));
    const auto midnight = floor<days>(time);
    const year_month_day date(midnight);
    const hh_mm_ss of_day(time - midnight);
    return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                       day_names[weekday(midnight).c_encoding()], static_cast<unsigned>(date.day()),
                       month_names[static_cast<unsigned>(date.month()) - 1],
                       static_cast<int>(date.year()), of_day.hours().count(),
                       of_day.minutes().count(), of_day.seconds().count());
}

}  // namespace pulsegate
