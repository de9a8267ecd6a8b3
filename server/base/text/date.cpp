#include "server/base/text/date.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>

namespace pulsegate {

namespace {

constexpr std::array<std::string_view, 7> day_names{"Sun", "Mon", "Tue", "Wed",
                                                    "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> month_names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// Reads from left to right. It remembers faults, and `done` reports them at the end.
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
    void expect_text(std::string_view text) {
        good_ = good_ && rest_.starts_with(text);
        if (good_) rest_.remove_prefix(text.size());
    }
    /// The index of the next word in the list.
    std::size_t place_in(std::span<const std::string_view> words) {
        const auto found = std::ranges::find_if(
            words, [this](std::string_view word) { return rest_.starts_with(word); });
        good_ = good_ && found != words.end();
        if (!good_) return 0;
        rest_.remove_prefix(found->size());
        return static_cast<std::size_t>(found - words.begin());
    }
    int number(int length, int most) {
        int number = 0;
        for (; length > 0; --length) number = number * 10 + digit();
        good_ = good_ && number <= most;
        return number;
    }
    /// The thousandths of a fraction with any number of digits.
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

/// Hours, minutes and seconds, as in "08:49:37".
std::chrono::seconds time_of_day_in(DateReader& in) {
    const std::chrono::hours hour{in.number(2, 23)};
    in.expect(":");
    const std::chrono::minutes minute{in.number(2, 59)};
    in.expect(":");
    return hour + minute + std::chrono::seconds{in.number(2, 60)};  // 60 is a leap second
}

/// The minutes to subtract because of the time zone.
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
    const seconds of_day = time_of_day_in(in);
    milliseconds fraction{0};
    if (in.next_is(".")) {
        in.expect(".");
        fraction = milliseconds(in.fraction());
    }
    const minutes offset{offset_in(in)};
    const year_month_day date{year{y}, month{static_cast<unsigned>(m)},
                              day{static_cast<unsigned>(d)}};
    if (!in.done() || !date.ok()) return std::nullopt;
    const milliseconds time = sys_days(date).time_since_epoch() + of_day - offset;
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

std::optional<WallMillis> parse_http_date(std::string_view text) {
    using namespace std::chrono;
    DateReader in(text);
    in.place_in(day_names);
    in.expect_text(", ");
    const int d = in.number(2, 31);
    in.expect_text(" ");
    const std::size_t month_place = in.place_in(month_names);
    in.expect_text(" ");
    const int y = in.number(4, 9999);
    in.expect_text(" ");
    const seconds of_day = time_of_day_in(in);
    in.expect_text(" GMT");
    const year_month_day date{year{y}, month{static_cast<unsigned>(month_place + 1)},
                              day{static_cast<unsigned>(d)}};
    if (!in.done() || !date.ok()) return std::nullopt;
    const milliseconds time = sys_days(date).time_since_epoch() + of_day;
    return time.count();
}

}  // namespace pulsegate
