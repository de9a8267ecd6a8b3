#!lua name=pg1
-- version 1
-- A caller with the tokens of partitions may write their rows. A token is an epoch and the owner: its incarnation, a colon
-- and the number of its connection, so that a call which an earlier connection has left behind comes too late.
-- Each function may be called again with the same arguments: nothing happens twice.

local most = 4000  -- texts in one call: Lua's unpack takes less than 8,000

local function in_parts(command, key, args, from, to)
    for i = from, to, most do redis.call(command, key, unpack(args, i, math.min(i + most - 1, to))) end
end

-- For each hash, from keys[first] on: how many texts to set and how many fields to delete, then these.
local function change(keys, first, args, at)
    for k = first, #keys do
        local sets, deletes = tonumber(args[at]), tonumber(args[at + 1])
        in_parts('HSET', keys[k], args, at + 2, at + 1 + sets)
        in_parts('HDEL', keys[k], args, at + 2 + sets, at + 1 + sets + deletes)
        at = at + 2 + sets + deletes
    end
end

local function refuse(code, what, is) return redis.error_reply(code .. ' ' .. what .. ' is ' .. (is or 'gone')) end

local function is_condemned(beats, owner)
    local beat = redis.call('HGET', beats, owner:match('^[^:]+'))
    return not beat or beat == 'condemned'
end

-- tokens..., hashes... / number of tokens, tokens..., changes
local function unit(keys, args)
    local tokens = tonumber(args[1])
    for i = 1, tokens do
        local token = redis.call('GET', keys[i])
        if token ~= args[i + 1] then return refuse('FENCED', keys[i], token) end
    end
    change(keys, tokens + 1, args, tokens + 2)
    return redis.status_reply('OK')
end

-- cluster, nodes, beats / birth, partitions, format, incarnation, row, name, dead incarnations...
local function join(keys, args)
    local dead, are_many = {}, redis.call('HLEN', keys[2]) > 64
    for i = 7, #args do dead[args[i]] = true end
    for _, other in ipairs(redis.call('HKEYS', keys[2])) do
        local is_same = other:sub(1, -18) == args[6]
        if is_condemned(keys[3], other) then
            if is_same or are_many then
                redis.call('HDEL', keys[2], other)
                redis.call('HDEL', keys[3], other)
            end
        elseif is_same and other ~= args[4] and not dead[other] then
            return redis.error_reply('TWIN ' .. other)
        end
    end
    if redis.call('EXISTS', keys[1]) == 0 then
        redis.call('HSET', keys[1], 'birth', args[1], 'partitions', args[2], 'format', args[3])
    end
    redis.call('HSET', keys[2], args[4], args[5])
    redis.call('HSETNX', keys[3], args[4], '0 0')
    return redis.call('HMGET', keys[1], 'birth', 'partitions', 'format')
end

-- cluster, nodes, beats / birth, incarnation, counters, row, whether it may be missing: 1 or 0
local function beat(keys, args)
    local birth = redis.call('HGET', keys[1], 'birth')
    if birth ~= args[1] then return refuse('EMPTIED', 'birth', birth) end
    local last = redis.call('HGET', keys[3], args[2])
    if last == 'condemned' or not last and args[5] == '0' then return refuse('FENCED', args[2], last) end
    redis.call('HSET', keys[2], args[2], args[4])
    redis.call('HSET', keys[3], args[2], args[3])
    return {redis.call('HGETALL', keys[2]), redis.call('HGETALL', keys[3])}
end

-- beats / judge, victim, its counters as they were seen
local function condemn(keys, args)
    if is_condemned(keys[1], args[1]) then return refuse('FENCED', args[1], 'condemned') end
    local last = redis.call('HGET', keys[1], args[2])
    if last and last ~= 'condemned' and last ~= args[3] then return refuse('LIVES', args[2], last) end
    redis.call('HSET', keys[1], args[2], 'condemned')
    return redis.status_reply('OK')
end

-- beats, tokens... / owner, for each token: as it was seen, the new epoch
local function claim(keys, args)
    if is_condemned(keys[1], args[1]) then return refuse('FENCED', args[1], 'condemned') end
    for i = 2, #keys do
        local token = redis.call('GET', keys[i]) or ''
        local mine, seen = args[2 * i - 1] .. ' ' .. args[1], args[2 * i - 2]
        if token ~= mine and (token ~= seen or not is_condemned(keys[1], token:match(' (.+)$') or '-')) then
            return refuse('LOST', keys[i], token)
        end
    end
    for i = 2, #keys do redis.call('SET', keys[i], args[2 * i - 1] .. ' ' .. args[1]) end
    return redis.status_reply('OK')
end

-- token, hashes... / epoch, owner, changes
local function confirm(keys, args)
    local token = redis.call('GET', keys[1])
    local epoch, owner, connection = (token or '0 -:0'):match('^(%d+) ([^:]+):?(%d*)$')
    local own, own_connection = args[2]:match('^([^:]+):(%d+)$')
    local is_own = owner == own and (tonumber(connection) or 0) <= tonumber(own_connection)
    if tonumber(epoch) > tonumber(args[1]) or epoch == args[1] and not is_own then
        return refuse('FENCED', keys[1], token)
    end
    redis.call('SET', keys[1], args[1] .. ' ' .. args[2])
    change(keys, 2, args, 3)
    return redis.status_reply('OK')
end

-- nodes, beats, tokens... / incarnation, epochs...
local function leave(keys, args)
    for i = 3, #keys do
        local mine = args[i - 1] .. ' ' .. args[1] .. ':'
        if (redis.call('GET', keys[i]) or ''):sub(1, #mine) == mine then
            redis.call('SET', keys[i], args[i - 1] .. ' -')
        end
    end
    redis.call('HDEL', keys[1], args[1])
    redis.call('HDEL', keys[2], args[1])
    return redis.status_reply('OK')
end

-- A full Redis refuses functions without this flag, even those that only delete.
local function register(name, call)
    redis.register_function{function_name = name, callback = call, flags = {'allow-oom'}}
end

redis.register_function('pg1_unit', unit)
register('pg1_clear', unit)
register('pg1_join', join)
register('pg1_beat', beat)
register('pg1_condemn', condemn)
register('pg1_claim', claim)
register('pg1_confirm', confirm)
register('pg1_leave', leave)
