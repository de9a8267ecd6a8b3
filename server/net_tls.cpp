// Asio's TLS, compiled once like the rest of Asio in net.cpp. That is linked into the load
// generator too, which needs no TLS.
#include <boost/asio/ssl/impl/src.hpp>
