// The one place where Asio, Beast and Boost.JSON are compiled; every other file sees declarations
// only.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <boost/json/src.hpp>
