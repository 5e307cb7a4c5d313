import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Exchange } from '../transport/exchange.ts';
import type { Fault, Outcome } from './script-step.ts';

/** Interval between two bytes of a response that drips. */
const DRIP_INTERVAL_MS = 100;
const FLOOD_CHUNK_BYTES = 65_536;

type ApplyFault = (exchange: Exchange, outcome: Outcome) => void;

/** Applies an outcome to a request: sends the response or injects the fault. */
export function applyOutcome(outcome: Outcome, exchange: Exchange): void {
  if (outcome.delayMs === 0) {
    FAULT_HANDLERS[outcome.fault](exchange, outcome);
    return;
  }
  const timer = setTimeout(() => FAULT_HANDLERS[outcome.fault](exchange, outcome), outcome.delayMs);
  exchange.onClose(() => clearTimeout(timer));
}

const respond: ApplyFault = (exchange, { status, headers, body }) =>
  exchange.respond(status, headers, body);

const FAULT_HANDLERS: Record<Fault, ApplyFault> = {
  answer: respond,
  redirect: respond,
  goaway: (exchange, outcome) => {
    exchange.goaway();
    respond(exchange, outcome);
  },
  reset: (exchange) => exchange.reset(false),
  'refuse-stream': (exchange) => exchange.reset(true),
  drop: (exchange) => exchange.destroyConnection(),
  flood: (exchange, { status, headers }) =>
    exchange.stream(status, headers, Readable.from(flood())),
  drip: (exchange, { status, headers }) => exchange.stream(status, headers, Readable.from(drip())),
  hang: () => undefined,
};

function* flood(): Generator<Buffer> {
  const bytes = Buffer.alloc(FLOOD_CHUNK_BYTES, '.');
  for (;;) yield bytes;
}

async function* drip(): AsyncGenerator<string> {
  for (;;) {
    await sleep(DRIP_INTERVAL_MS, undefined, { ref: false });
    yield '.';
  }
}
