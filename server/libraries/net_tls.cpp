// Compiles Asio's TLS. Not in net.cpp, because that is linked into the load generator, which needs
// no TLS.
#include <boost/asio/ssl/impl/src.hpp>
