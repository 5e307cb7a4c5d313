import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Exchange } from '../wire/exchange.ts';
import type { Act, Ending } from './step.ts';

const DRIP_MS = 100;
const FLOOD_BYTES = 65_536;

type End = (exchange: Exchange, ending: Ending) => void;

/** Ends a request as decided. */
export function carryOut(ending: Ending, exchange: Exchange): void {
  if (ending.delayMs === 0) {
    ENDS[ending.act](exchange, ending);
    return;
  }
  const timer = setTimeout(() => ENDS[ending.act](exchange, ending), ending.delayMs);
  exchange.onGone(() => clearTimeout(timer));
}

const answer: End = (exchange, { status, headers, body }) => exchange.answer(status, headers, body);

const ENDS: Record<Act, End> = {
  answer,
  redirect: answer,
  goaway: (exchange, ending) => {
    exchange.goaway();
    answer(exchange, ending);
  },
  reset: (exchange) => exchange.reset(false),
  'refuse-stream': (exchange) => exchange.reset(true),
  drop: (exchange) => exchange.drop(),
  flood: (exchange, { status, headers }) =>
    exchange.stream(status, headers, Readable.from(flood())),
  drip: (exchange, { status, headers }) => exchange.stream(status, headers, Readable.from(drip())),
  hang: () => undefined,
};

function* flood(): Generator<Buffer> {
  const bytes = Buffer.alloc(FLOOD_BYTES, '.');
  for (;;) yield bytes;
}

async function* drip(): AsyncGenerator<string> {
  for (;;) {
    await sleep(DRIP_MS, undefined, { ref: false });
    yield '.';
  }
}
