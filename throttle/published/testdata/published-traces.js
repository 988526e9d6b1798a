// Makes the traces of rolling-rate-limiter 0.4.2: see README.md. Without
// arguments it writes the random inputs; each input is then run through the
// package with both of its backends, on a clock that follows the trace.
'use strict';
const fs = require('fs');
const path = require('path');
const {createRequire} = require('module');
const load = createRequire(path.join(process.cwd(), 'x.js'));

let now = 0; // µs
load('microtime');
load.cache[load.resolve('microtime')].exports = {now: () => now};
global.setTimeout = () => 0; // the memory backend only forgets what has expired
global.clearTimeout = () => {};
const {InMemoryRateLimiter, IORedisRateLimiter} = load('rolling-rate-limiter');
const Redis = load('ioredis');

function random(seed) { // mulberry32
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// steps are what lies between two operations, in ms.
function input(seed, count, steps) {
  const next = random(seed);
  const pick = (list) => list[Math.floor(next() * list.length)];
  const lines = [];
  let t = 0; // µs
  for (let i = 0; i < count; i++) {
    t += Math.round(pick(steps) * 1000);
    const op = pick(['limit', 'limit', 'limit', 'limit', 'limit', 'would', 'would', next() < 0.3 ? 'clear' : 'would']);
    lines.push({t: t / 1000, id: pick(['u1', 'u1', 'u1', 'u2']), op});
  }
  return lines;
}

async function run(lines, limiter) {
  const out = [];
  for (const [i, {t, id, op}] of lines.entries()) {
    now = Math.round(t * 1000);
    if (op === 'clear') {
      await limiter.clear(id);
      out.push(JSON.stringify({i, t, id, op}));
      continue;
    }
    const r = await (op === 'limit' ? limiter.limitWithInfo(id) : limiter.wouldLimitWithInfo(id));
    out.push(JSON.stringify({
      i, t, id, op, blocked: r.blocked, count: r.blockedDueToCount, gap: r.blockedDueToMinDifference,
      left: r.millisecondsUntilAllowed, rem: r.actionsRemaining,
    }));
  }
  return out.join('\n') + '\n';
}

async function main() {
  const dir = __dirname;
  const read = (name) => fs.readFileSync(path.join(dir, name + '.jsonl'), 'utf8').trim().split('\n').map((l) => JSON.parse(l));
  const write = (name, lines) => fs.writeFileSync(path.join(dir, name + '.jsonl'), lines.map((l) => JSON.stringify(l) + '\n').join(''));
  write('random', input(1, 300, [0, 0, 0, 1, 1, 2, 3, 4, 5, 9, 10, 11, 14, 15, 16]));
  write('fractions', input(2, 200, [0, 0.001, 0.25, 0.499, 0.5, 0.999, 1, 1.001, 2.5, 4.999, 10]));
  const combos = {
    basic: [[10, 3, 2]],
    random: [[10, 1, 0], [10, 1, 3], [10, 3, 0], [10, 2, 15], [10, 4, 10], [40, 5, 1], [100, 8, 0]],
    fractions: [[10, 3, 1], [2.5, 2, 0.5]],
  };
  const client = new Redis(process.env.REDIS || '127.0.0.1:6379');
  for (const name of Object.keys(combos)) {
    for (const [interval, maxInInterval, minDifference] of combos[name]) {
      const options = {interval, maxInInterval, minDifference};
      const lines = read(name);
      const memory = await run(lines, new InMemoryRateLimiter(options));
      const namespace = `trace:${process.pid}:${name}:${interval}:${maxInInterval}:${minDifference}:`;
      const redis = await run(lines, new IORedisRateLimiter({...options, client, namespace}));
      if (memory !== redis) throw new Error(`${namespace} the backends differ`);
      fs.writeFileSync(path.join(dir, `${name}.interval${interval}.max${maxInInterval}.gap${minDifference}.out`), memory);
    }
  }
  client.disconnect();
}

main().catch((err) => { console.error(err); process.exitCode = 1; });
