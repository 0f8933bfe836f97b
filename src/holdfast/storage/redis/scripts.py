"""The Lua scripts that run inside Redis. A call is atomic. It has one client; APPEND has many.

1. KEYS are what the keys of a client begin with, and its state. There is no key of the first name: while a slot moves
   from one master to another, Redis therefore finds that one of two keys is missing on either side, and lets no script
   run on half a queue. The caller asks again until the slot has moved. All keys of a client lie in one slot; in a
   cluster, a call is given one client alone.
2. Values are bytes that no script looks into, but for the first: whether PUBREC has come.
3. Checks come before the first write, because Redis does not take back what a failing script has written.
4. Numbers are compared as text of 20 digits: Lua's own numbers are exact to 53 bits alone.
5. `read` is the last serial that was read. What is above it waits, and is what limits are for.
6. Time is the caller's. A value's TTL is for Redis to free memory by; what counts is `expiring`.
"""

import hashlib
from typing import Final

_QUEUE: Final = """
local base, state, queue, expiring, value
-- `count` and `waiting` are messages and bytes above `read`; nothing expires before `soonest` (0: nothing expires).
local number, last, read, count, waiting, bytes, full, soonest

-- Take a client's queue in hand.
local function open(key, its_state)
  base, state = key, its_state
  queue, expiring, value = key .. ':queue', key .. ':expiring', key .. ':'
  local kept = redis.call('GET', state)
  if kept then
    number = string.sub(kept, 1, 20)
    last, read, count, waiting, bytes, full, soonest = struct.unpack('>ddddddd', kept, 21)
  else
    number, last, read, count, waiting, bytes, full, soonest = '00000000000000000000', 0, 0, 0, 0, 0, 0, 0
  end
end

-- All that was taken in hand, as the state keeps it.
local function packed()
  return number .. struct.pack('>ddddddd', last, read, count, waiting, bytes, full, soonest)
end

local function text(serial) return string.format('%.0f', serial) end

local function save() redis.call('SET', state, packed()) end

-- How many messages this call has removed.
local removed = 0

-- Forget messages. `found` holds members of the queue and their serials in turn, at most 1000 of each.
local function forget(found)
  if #found == 0 then return end
  local members, values, serials = {}, {}, {}
  for i = 1, #found, 2 do
    local size, n = tonumber(string.sub(found[i], 22)), (i + 1) / 2
    members[n], values[n], serials[n] = found[i], value .. found[i + 1], found[i + 1]
    bytes = bytes - size
    if tonumber(found[i + 1]) > read then
      waiting = waiting - size
      count = count - 1
    end
  end
  removed = removed + #members
  redis.call('ZREM', queue, unpack(members))
  redis.call('UNLINK', unpack(values))
  if soonest > 0 then redis.call('ZREM', expiring, unpack(serials)) end
end

-- Forget what has expired; how many.
local function prune(now)
  if soonest == 0 or soonest > now then return 0 end
  local pruned = 0
  while true do
    local gone = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, 1000)
    if #gone == 0 then break end
    local found = {}
    for _, serial in ipairs(gone) do
      for _, part in ipairs(redis.call('ZRANGEBYSCORE', queue, serial, serial, 'WITHSCORES')) do
        found[#found + 1] = part
      end
    end
    redis.call('ZREM', expiring, unpack(gone))
    forget(found)
    pruned = pruned + #gone
  end
  local following = redis.call('ZRANGE', expiring, 0, 0, 'WITHSCORES')
  soonest = tonumber(following[2] or 0)
  return pruned
end
"""

_ONE: Final = _QUEUE + "open(KEYS[1], KEYS[2])"

#: now; then of each client the most messages, the most bytes, whether to refuse, and how many entries: of each its
#: number and size, when it expires and the ms until then ('' never, '-' not to be stored), and its value. Gives for
#: each client the first serial if its entries were stored in a row; or else how many were dropped, how many refused,
#: and the serial of each entry; or what is wrong with its queue, or that its turn has not come. What can be written
#: together is: for Redis, beginning and ending a command is more work than a value more in it.
_APPEND: Final = """
local now, pairs_to_set, p = tonumber(ARGV[1]), {}, 0

local function set(key, content)
  pairs_to_set[p + 1], pairs_to_set[p + 2] = key, content
  p = p + 2
end

local function flush()
  if p > 0 then redis.call('MSET', unpack(pairs_to_set)) end
  pairs_to_set, p = {}, 0
end

-- The serial of a message that was given before: numbers of a queue rise with its serials.
local function place(wanted)
  local low, high = 0, redis.call('ZCARD', queue) - 1
  while low <= high do
    local middle = math.floor((low + high) / 2)
    local found = redis.call('ZRANGE', queue, middle, middle, 'WITHSCORES')
    local there = string.sub(found[1], 1, 20)
    if there == wanted then return tonumber(found[2]) end
    if there < wanted then low = middle + 1 else high = middle - 1 end
  end
  return 0
end

-- The entries of ARGV from `begin` to `finish`.
local function append(most, most_bytes, refusing, begin, finish)
  prune(now)
  local older = count
  if count == 0 then full = 0 end
  local dropped, refused, answer, places = 0, 0, {0, 0}, {}
  local before = last

  local at = 2
  for i = begin, finish, 3 do
    local given = string.sub(ARGV[i], 1, 20)
    at = at + 1
    if given <= number then
      answer[at] = place(given)
    else
      number = given
      if ARGV[i + 1] == '-' then
        answer[at] = 0
      else
        local size = tonumber(string.sub(ARGV[i], 22))
        if refusing and (full == 1 or count >= most or waiting + size > most_bytes) then
          full = 1
          refused = refused + 1
          answer[at] = 0
        else
          last = last + 1
          count = count + 1
          waiting = waiting + size
          bytes = bytes + size
          answer[at] = last
          places[last - before] = i
        end
      end
    end
  end

  while older > 0 and (count > most or waiting > most_bytes) do
    local page = redis.call('ZRANGEBYSCORE', queue, '(' .. text(read), '+inf', 'WITHSCORES', 'LIMIT', 0, 100)
    local going, left, left_bytes = {}, count, waiting
    for i = 1, #page, 2 do
      if left <= most and left_bytes <= most_bytes then break end
      going[i], going[i + 1] = page[i], page[i + 1]
      left = left - 1
      left_bytes = left_bytes - tonumber(string.sub(page[i], 22))
    end
    dropped = dropped + count - left
    older = older - count + left
    forget(going)
  end

  -- What is left over the limits is of this batch: its newest stay, the others are never written.
  local first = 1
  while first <= #places and (count > most or waiting > most_bytes) do
    local size = tonumber(string.sub(ARGV[places[first]], 22))
    answer[(places[first] - begin) / 3 + 3] = 0
    count = count - 1
    waiting = waiting - size
    bytes = bytes - size
    dropped = dropped + 1
    first = first + 1
  end

  while first <= #places do
    local references, deadlines = {}, {}
    local final, r, d = math.min(first + 999, #places), 0, 0
    for n = first, final do
      local i, serial = places[n], text(before + n)
      references[r + 1], references[r + 2] = serial, ARGV[i]
      r = r + 2
      if ARGV[i + 1] ~= '' then
        local expires = string.match(ARGV[i + 1], '%d+')
        deadlines[d + 1], deadlines[d + 2] = expires, serial
        d = d + 2
        expires = tonumber(expires)
        if soonest == 0 or expires < soonest then soonest = expires end
      end
    end
    -- Only these can fail, if somebody put something else under their names: then no message of the page is there.
    if d > 0 then redis.call('ZADD', expiring, unpack(deadlines)) end
    redis.call('ZADD', queue, unpack(references))
    for n = first, final do
      local i, key = places[n], value .. text(before + n)
      if ARGV[i + 1] == '' then
        set(key, ARGV[i + 2])
      else
        redis.call('SET', key, ARGV[i + 2], 'PX', string.match(ARGV[i + 1], ':(%d+)'))
      end
    end
    if p >= 2000 then flush() end
    first = final + 1
  end

  -- Also when nothing was stored: the numbers were given.
  set(state, packed())
  if dropped == 0 and last - before == (finish - begin + 1) / 3 then return before + 1 end
  answer[1], answer[2] = dropped, refused
  return answer
end

local answers, header = {}, 2
for k = 1, #KEYS, 2 do
  local begin = header + 4
  local finish = begin + 3 * tonumber(ARGV[header + 3]) - 1
  local whole, answer = pcall(function()
    -- Nobody else is served meanwhile: the rest comes with the next call, which finds less to remove.
    if removed > MOST_REMOVED then return 'BUSY removing what others have no room for' end
    open(KEYS[k], KEYS[k + 1])
    return append(tonumber(ARGV[header]), tonumber(ARGV[header + 1]), ARGV[header + 2] == '1', begin, finish)
  end)
  if not whole then
    -- Redis 7 has the reason in a table, Redis 6 behind the place in the script.
    answer = string.gsub(answer.err or answer, '^@?user_script: ?%d+: ?-?', '')
  end
  answers[(k + 1) / 2] = answer
  if p >= 1000 then flush() end
  header = finish + 1
end
flush()
return answers
"""

#: now, after, limit. Gives serials and values in turn.
_READ: Final = """
local now, after, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local changed = prune(now) > 0
local answer, from, up_to, sent, passed = {}, after, read, 0, 0
while #answer < 2 * limit do
  local most = math.min(limit - #answer / 2, 1000)
  local page = redis.call('ZRANGEBYSCORE', queue, '(' .. text(from), '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  if #page == 0 then break end
  local names, dead = {}, {}
  for i = 2, #page, 2 do names[i / 2] = value .. page[i] end
  local values = redis.call('MGET', unpack(names))
  for i = 1, #page, 2 do
    local serial, found = tonumber(page[i + 1]), values[(i + 1) / 2]
    if found then
      answer[#answer + 1] = serial
      answer[#answer + 1] = found
      if serial > up_to then
        up_to = serial
        sent = sent + tonumber(string.sub(page[i], 22))
        passed = passed + 1
      end
    else
      dead[#dead + 1] = page[i]
      dead[#dead + 1] = page[i + 1]
    end
    from = serial
  end
  if #dead > 0 then
    forget(dead)
    changed = true
  end
end
if up_to > read then
  -- What lies between the last reading and this one counts as read, too.
  if after > read then
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', queue, '(' .. text(read), text(after))) do
      sent = sent + tonumber(string.sub(member, 22))
      passed = passed + 1
    end
  end
  read, waiting, count, changed = up_to, waiting - sent, count - passed, true
end
if changed then save() end
return answer
"""

#: Runs of serials: the first and the last of each.
_ACKNOWLEDGE: Final = """
local changed = false
for i = 1, #ARGV, 2 do
  while true do
    local page = redis.call('ZRANGEBYSCORE', queue, ARGV[i], ARGV[i + 1], 'WITHSCORES', 'LIMIT', 0, 1000)
    if #page == 0 then break end
    forget(page)
    changed = true
    if #page < 2000 then break end
  end
end
if changed then save() end
return 0
"""

#: Serials. SETRANGE leaves the TTL as it is.
_RELEASE: Final = """
for _, serial in ipairs(ARGV) do
  if redis.call('EXISTS', value .. serial) == 1 then redis.call('SETRANGE', value .. serial, 0, '\\1') end
end
return 0
"""

#: Serials of messages that cannot be read: they are moved to a key that no reader uses, for inspection.
_SET_ASIDE: Final = """
for _, serial in ipairs(ARGV) do
  local found = redis.call('GET', value .. serial)
  if found then redis.call('HSET', base .. ':damaged', serial, found) end
  forget(redis.call('ZRANGEBYSCORE', queue, serial, serial, 'WITHSCORES'))
end
save()
return 0
"""

#: now. Gives how many have expired, how many are left, their bytes, the last serial and the last number.
_LOOK: Final = """
local gone = prune(tonumber(ARGV[1]))
if gone > 0 then save() end
return {gone, redis.call('ZCARD', queue), bytes, text(last), number}
"""

#: The number that the queue had last when it was decided: a call that arrives late must not take what came after it.
#: Gives 1 as long as there is more to remove.
_DROP: Final = """
if number ~= ARGV[1] then return 0 end
local page = redis.call('ZRANGE', queue, 0, 999, 'WITHSCORES')
forget(page)
if #page == 2000 then
  save()
  return 1
end
redis.call('UNLINK', state, queue, expiring, base .. ':damaged')
return 0
"""


#: Messages that a call for many clients removes before it leaves the next clients for later.
_MOST_REMOVED: Final = 10_000


class Script:
    """A script and the name that Redis has for it."""

    def __init__(self, source: str) -> None:
        self.source: Final = source.encode()
        self.sha: Final = hashlib.sha1(self.source, usedforsecurity=False).hexdigest().encode()


APPEND: Final = Script(_QUEUE + _APPEND.replace("MOST_REMOVED", str(_MOST_REMOVED)))
READ: Final = Script(_ONE + _READ)
ACKNOWLEDGE: Final = Script(_ONE + _ACKNOWLEDGE)
RELEASE: Final = Script("local value = KEYS[1] .. ':'" + _RELEASE)
SET_ASIDE: Final = Script(_ONE + _SET_ASIDE)
LOOK: Final = Script(_ONE + _LOOK)
DROP: Final = Script(_ONE + _DROP)
