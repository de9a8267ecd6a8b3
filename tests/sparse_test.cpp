#include "server/base/memory/sparse.h"

#include <doctest/doctest.h>

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>

using namespace pulsegate;

TEST_CASE("a table that has become nearly empty gives its memory back and keeps what it has") {
    boost::unordered_flat_set<int> table;
    for (int i = 0; i < 100'000; ++i) table.insert(i);
    const std::size_t room = table.bucket_count();
    shrink_if_sparse(table);
    CHECK(table.bucket_count() == room);
    for (int i = 100; i < 100'000; ++i) table.erase(i);
    shrink_if_sparse(table);
    CHECK(table.bucket_count() < 1024);
    CHECK(table.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(table.contains(i));
}

TEST_CASE("a table keeps its room while very many would have to move") {
    boost::unordered_flat_set<int> table;
    table.reserve(2'000'000);
    const std::size_t room = table.bucket_count();
    for (int i = 0; i <= 100'000; ++i) table.insert(i);
    shrink_if_sparse(table);
    CHECK(table.bucket_count() == room);
    table.erase(0);
    shrink_if_sparse(table);
    CHECK(table.bucket_count() < room / 4);
    CHECK(table.size() == 100'000);
}

TEST_CASE("a small table keeps its room") {
    boost::unordered_flat_set<int> table;
    table.reserve(500);
    const std::size_t room = table.bucket_count();
    shrink_if_sparse(table);
    CHECK(table.bucket_count() == room);
}
