// Compiles Asio, Beast and Boost.JSON, once; every other file includes declarations only.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <boost/json/src.hpp>
