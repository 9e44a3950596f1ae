"""The flow model again, from docs/network.md and docs/architecture.md alone, in exact fractions.

Slow and plain on purpose: every rule is asked of all that has happened, and nothing is kept but
that. Plain transfers only, no switch that reduces or multicasts.
"""
import collections
import fractions
import heapq

Link = collections.namedtuple("Link", "source target bandwidth latency_ps")
Topology = collections.namedtuple("Topology", "overheads_ps forwards links header packet")
Options = collections.namedtuple(
    "Options", "segments lockstep by_message landing_places reduce_bandwidth")
# One message of the schedule: chunks [first, first + count) from a rank to another.
Message = collections.namedtuple("Message", "step first count source target reduces route")

PS = 10**12


def ceiling(value):
    return -(-value.numerator // value.denominator) if isinstance(
        value, fractions.Fraction) else value


def shortest_route(topology, source, target):
    """The fewest links; among those, at every node, the first in link order that gets nearer."""
    distance, queue = {target: 0}, collections.deque([target])
    while queue:
        node = queue.popleft()
        for link in topology.links:
            passes = node == target or topology.forwards[node]
            if link.target == node and passes and link.source not in distance:
                distance[link.source] = distance[node] + 1
                queue.append(link.source)
    route, node = [], source
    while node != target:
        number = next(
            number for number, link in enumerate(topology.links)
            if link.source == node and distance.get(link.target) == distance[node] - 1
            and (link.target == target or topology.forwards[link.target]))
        route.append(number)
        node = topology.links[number].target
    return tuple(route)


def max_min_shares(links, flows):
    """By flow number, bytes per second; `flows` maps numbers to routes."""
    left = {link: fractions.Fraction(links[link].bandwidth)
            for route in flows.values() for link in route}
    rates = {}
    while len(rates) < len(flows):
        users = collections.Counter(
            link for number, route in flows.items() if number not in rates for link in route)
        least, link = min((left[link] / count, link) for link, count in users.items())
        for number, route in flows.items():
            if number not in rates and link in route:
                rates[number] = least
                for used in route:
                    left[used] -= least
    return rates


class Grid:
    """Bytes of every segment of every chunk."""

    def __init__(self, schedule, size_bytes, segments):
        weights = schedule.get("chunk_weights") or [1] * schedule["chunk_count"]
        is_exchange = schedule["collective"] == "all_to_all"
        space = size_bytes * (len(schedule["participants"]) if is_exchange else 1)
        ends = [0]
        for weight in weights:
            ends.append(ends[-1] + weight)
        cuts = [space * end // ends[-1] for end in ends]
        self.lengths = [end - begin for begin, end in zip(cuts, cuts[1:])]
        self.segments = segments

    def bytes(self, chunk, segment):
        length = self.lengths[chunk]
        return (length * (segment + 1) // self.segments) - (length * segment // self.segments)


class Translation:
    """Mixed-radix coordinates, first dimension slowest."""

    def __init__(self, dimensions):
        self.dimensions = dimensions

    def add(self, rank, other):
        total, stride = 0, 1
        for size in reversed(self.dimensions):
            total += (rank + other) % size * stride
            rank, other, stride = rank // size, other // size, stride * size
        return total


def messages_of(schedule, topology):
    """All messages, translates written out, each with a route."""
    nodes = schedule["participants"]
    chunks = len(schedule.get("chunk_weights", ())) or schedule["chunk_count"]
    rank_of = {node: rank for rank, node in enumerate(nodes)}
    routes = schedule.get("routes", [])
    is_symmetric = "symmetry" in schedule
    group = Translation(schedule.get("symmetry", [len(nodes)]))
    is_exchange = schedule["collective"] == "all_to_all"

    def moved_chunk(chunk, by):
        block = chunks // len(nodes)
        if not is_exchange:
            return group.add(chunk // block, by) * block + chunk % block
        part, place = block // len(nodes), chunk % block
        return (group.add(chunk // block, by) * block + group.add(place // part, by) * part +
                place % part)

    found = []
    for transfer in schedule["transfers"]:
        for by in range(len(nodes) if is_symmetric else 1):
            source, target = rank_of[transfer["source"]], rank_of[transfer["target"]]
            first = transfer["first_chunk"]
            if is_symmetric:
                source, target = group.add(source, by), group.add(target, by)
                first = moved_chunk(first, by)
            if "route" in transfer and not is_symmetric:
                route = tuple(routes[transfer["route"]])
            else:
                route = shortest_route(topology, nodes[source], nodes[target])
            found.append(Message(transfer["step"], first, transfer.get("chunk_count", 1), source,
                                 target, transfer["op"] == "reduce", route))
    return found


class Simulation:
    """One job that starts at 0."""

    def __init__(self, topology, schedule, size_bytes, options):
        self.topology, self.options = topology, options
        self.nodes = schedule["participants"]
        self.messages = messages_of(schedule, topology)
        steps = sum(schedule.get("phase_steps", ())) or 1 + max(
            (message.step for message in self.messages), default=0)
        self.period = schedule.get("period", max(steps, 1))
        self.slots = (options.segments - 1) * self.period + steps
        self.grid = Grid(schedule, size_bytes, options.segments)
        self.sends = [(message, segment) for message in range(len(self.messages))
                      for segment in range(options.segments)]
        self.connections = collections.defaultdict(list)  # by route: sends in order of priority
        for send in sorted(self.sends, key=self.priority):
            self.connections[self.messages[send[0]].route].append(send)
        self.arrivals_at, self.sends_from = (collections.defaultdict(list) for _ in range(2))
        for number, message in enumerate(self.messages):
            for chunk in range(message.first, message.first + message.count):
                self.arrivals_at[message.target, chunk].append(number)
                self.sends_from[message.source, chunk].append(number)
        self.started, self.read, self.landed, self.committed = set(), set(), set(), set()
        self.reducing = {}  # by rank: its reductions under way
        self.active = {}  # by route: its send
        self.flows = {}  # by route: [bytes left, rate, since, number of its end]
        self.open_slot = dict.fromkeys(range(len(self.nodes)), -1)
        self.nops = {}  # by rank: the slot held open without a send
        self.events, self.count, self.now = [], 0, 0
        self.wire_bytes = 0

    def key(self, send):
        return send[1] * self.period + self.messages[send[0]].step

    def priority(self, send):
        return self.key(send), send[1], self.messages[send[0]].first

    def chunks(self, message):
        return range(message.first, message.first + message.count)

    def wire(self, send):
        message, segment = self.messages[send[0]], send[1]
        payload = sum(self.grid.bytes(chunk, segment) for chunk in self.chunks(message))
        packets = 1 if self.options.by_message else max(1, -(-payload // self.topology.packet))
        return payload + packets * self.topology.header

    def overhead_ps(self, route):
        return self.topology.overheads_ps[self.topology.links[route[0]].source]

    def at(self, time_ps, what, *arguments):
        self.count += 1
        heapq.heappush(self.events, (time_ps, self.count, what, arguments))
        return self.count

    # What the order permits.

    def may_read(self, send):
        message, segment = self.messages[send[0]], send[1]
        return all((other, chunk, segment) in self.committed
                   for chunk in self.chunks(message)
                   for other in self.arrivals_at[message.source, chunk]
                   if self.messages[other].step < message.step)

    def may_commit(self, number, chunk, segment):
        message = self.messages[number]
        before = (message.step, message.source)
        return all((other, chunk, segment) in self.committed
                   for other in self.arrivals_at[message.target, chunk]
                   if (self.messages[other].step, self.messages[other].source) < before) and all(
                       (other, segment) in self.read
                       for other in self.sends_from[message.target, chunk]
                       if self.messages[other].step <= message.step)

    def is_committed(self, send):
        return all((send[0], chunk, send[1]) in self.committed
                   for chunk in self.chunks(self.messages[send[0]]))

    def is_admitted(self, route, send):
        places = self.options.landing_places
        if places == 0:
            return True
        uncommitted = [other for other in self.connections[route] if not self.is_committed(other)]
        held = sum(other in self.started for other in uncommitted)
        smallest = uncommitted[0]
        return held < places and (send == smallest or held + 1 < places
                                  or smallest in self.started)

    # What happens.

    def leave(self, route, send):
        self.read.add(send)
        del self.active[route]
        self.flows.pop(route, None)
        latency_ps = sum(self.topology.links[link].latency_ps for link in route)
        self.at(self.now + latency_ps, self.arrive, send)

    def end_flow(self, route, send, number):
        if route in self.flows and self.flows[route][3] == number:
            self.leave(route, send)

    def begin_flow(self, route, send):
        self.flows[route] = [fractions.Fraction(self.wire(send)), 0, self.now, 0]

    def arrive(self, send):
        message = self.messages[send[0]]
        self.landed.update((send[0], chunk, send[1]) for chunk in self.chunks(message))

    def end_reduction(self, rank):
        self.committed.update(self.reducing.pop(rank))

    def end_nop(self, rank, slot):
        if self.nops.get(rank) == slot:
            del self.nops[rank]

    # What follows.

    def commit_copies(self):
        """And reductions that take no time. Whether there were any."""
        done = [item for item in self.landed if item not in self.committed
                and not (self.messages[item[0]].reduces and self.options.reduce_bandwidth)
                and self.may_commit(*item)]
        self.committed.update(done)
        self.landed.difference_update(done)
        return bool(done)

    def begin_reductions(self):
        ready = collections.defaultdict(list)
        for item in self.landed:
            rank = self.messages[item[0]].target
            if rank not in self.reducing and self.messages[item[0]].reduces and self.may_commit(
                    *item):
                ready[rank].append(item)
        for rank, items in ready.items():
            place = [(self.key((item[0], item[2])), item[2]) for item in items]
            chosen = [item for item, where in zip(items, place) if where == min(place)]
            bytes_ = sum(self.grid.bytes(item[1], item[2]) for item in chosen)
            self.reducing[rank] = chosen
            self.landed.difference_update(chosen)
            end_ps = self.now + -(-bytes_ * PS // self.options.reduce_bandwidth)
            self.at(end_ps, self.end_reduction, rank)
        return bool(ready)

    def nop_ps(self):
        largest = max(self.wire(send) for send in self.sends)
        return max(
            self.overhead_ps(route) + -(-largest * PS // min(
                self.topology.links[link].bandwidth for link in route))
            for route in self.connections)

    def open_slots(self):
        for rank in self.open_slot:
            while rank not in self.nops and self.open_slot[rank] + 1 < self.slots and all(
                    send in self.read for send in self.sends
                    if self.messages[send[0]].source == rank
                    and self.key(send) <= self.open_slot[rank]):
                self.open_slot[rank] += 1
                slot = self.open_slot[rank]
                if not any(self.messages[send[0]].source == rank and self.key(send) == slot
                           for send in self.sends):
                    self.nops[rank] = slot
                    self.at(self.now + self.nop_ps(), self.end_nop, rank, slot)

    def start_sends(self):
        for route, sends in self.connections.items():
            ready = [send for send in sends if send not in self.started and self.may_read(send)]
            if route in self.active or not ready or not self.is_admitted(route, ready[0]):
                continue
            send = ready[0]
            source = self.messages[send[0]].source
            if self.options.lockstep and self.key(send) > self.open_slot[source]:
                continue
            self.started.add(send)
            self.active[route] = send
            self.wire_bytes += self.wire(send) * len(route)
            begin_ps = self.now + self.overhead_ps(route)
            if self.wire(send) == 0:
                self.at(begin_ps, self.leave, route, send)
            elif begin_ps == self.now:
                self.begin_flow(route, send)
            else:
                self.at(begin_ps, self.begin_flow, route, send)

    def share_links(self):
        rates = max_min_shares(self.topology.links, {route: route for route in self.flows})
        for route, flow in self.flows.items():
            left, rate, since, _ = flow
            if rates[route] == rate:
                continue
            left -= rate * fractions.Fraction(self.now - since, PS)
            end_ps = self.now + ceiling(left / rates[route] * PS)
            flow[:] = left, rates[route], self.now, 0
            flow[3] = self.at(end_ps, lambda *_: None)
            self.at(end_ps, self.end_flow, route, self.active[route], flow[3])

    def settle(self):
        """All of one time: what happens takes effect, then things start, until nothing does."""
        while True:
            while self.events and self.events[0][0] == self.now:
                _, _, what, arguments = heapq.heappop(self.events)
                what(*arguments)
            if self.commit_copies():
                continue
            if self.options.reduce_bandwidth and self.begin_reductions():
                continue
            if self.options.lockstep:
                self.open_slots()
            self.start_sends()
            if not self.events or self.events[0][0] != self.now:
                self.share_links()
            if not self.events or self.events[0][0] != self.now:
                return

    def run(self):
        """When the last chunk is in place [ps]."""
        total = sum(message.count for message in self.messages) * self.options.segments
        self.settle()
        while len(self.committed) < total:
            self.now = self.events[0][0]
            self.settle()
        return self.now
