// The measures of `clinch-peers-load` on BullMQ: the same jobs, the same order, the same output.
import { Queue, Worker } from 'bullmq';

const CALLERS = 16;
const BULK_CALLERS = 4;
const CHUNK = 1000;
const WARM_UP = 2000;
const CONCURRENCY = 500;

const [place, singles, bulk, samples] = process.argv.slice(2);
const { hostname: host, port } = new URL(place);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue('call', { connection });

let made = 0;
let completed = 0;
let wake = () => {};

const payload = (number) => ({
  number,
  amount: 5000,
  note: '0123456789 0123456789 0123456789 0123456789 01234',
});

// Jobs per second: each caller waits for its own durable answer before its next call.
async function add(callers, each, total) {
  let left = Math.floor(total / each);
  const from = performance.now();
  const caller = async () => {
    while (left > 0) {
      left -= 1;
      if (each === 1) {
        await queue.add('call', payload(made++));
      } else {
        const jobs = Array.from({ length: each }, () => ({ name: 'call', data: payload(made++) }));
        await queue.addBulk(jobs);
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return total / ((performance.now() - from) / 1000);
}

// BullMQ tells of a completion after Redis has stored it.
async function start() {
  const worker = new Worker('call', async () => ({ ok: true }), {
    connection,
    concurrency: CONCURRENCY,
  });
  worker.on('completed', () => {
    completed += 1;
    wake();
  });
  worker.on('error', (error) => console.error(error));
  await worker.waitUntilReady();
  return worker;
}

async function reach(count) {
  while (completed < count) {
    await new Promise((resolve) => (wake = resolve));
  }
}

await queue.waitUntilReady();
await add(CALLERS, 1, WARM_UP / 2);
let worker = await start();
await add(CALLERS, 1, WARM_UP / 2);
await reach(made);
await worker.close();

const before = made;
console.log('accept', await add(CALLERS, 1, Number(singles)));
console.log('bulk', await add(BULK_CALLERS, CHUNK, Number(bulk)));

const backlog = made - before;
const from = performance.now();
worker = await start();
await reach(made);
console.log('drain', backlog / ((performance.now() - from) / 1000));

const times = [];
const warmUp = Number(samples) / 10;
for (let sample = 0; sample < warmUp + Number(samples); sample += 1) {
  const began = performance.now();
  const goal = completed + 1;
  await queue.add('call', payload(made++));
  await reach(goal);
  if (sample >= warmUp) times.push(performance.now() - began);
}
times.sort((one, other) => one - other);
console.log('queued_p50', times[Math.floor(times.length / 2)]);
await worker.close();
await queue.close();
