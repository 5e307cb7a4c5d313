import { joinTokens, splitTokens } from '@carillon/core/work';

/** One push on its way to devices, as a worker hands it over. */
export interface Delivery {
  push: string;
  /** The batch, or the push that holds its only batch. */
  work: string;
  /** The worker's claim on the work. */
  claim: string;
  /** Nothing is sent from this moment on; milliseconds, MongoDB's time. */
  expiresAt: number;
  /** Hash of the collapse key (core/work). */
  collapse?: string;
  payload: string;
}

/** A delivery as it reaches a gateway. */
export interface HandedOver extends Delivery {
  /** The reply stream of the worker. */
  reply: string;
  /** Nothing is written after it; milliseconds, Redis's time. */
  deadline: number;
  tokens: string[];
  /** The recipients' positions in the work, in the order of `tokens`. */
  positions: number[];
}

/** What stands in a hand-over stream. */
export type HandOverEntry =
  | { kind: 'deliver'; delivery: HandedOver }
  | { kind: 'drain'; tokens: string[] }
  | { kind: 'kick'; token: string; connection: string };

/** The fields of an entry, for XADD. */
export function writeEntry(entry: HandOverEntry): string[] {
  switch (entry.kind) {
    case 'deliver': {
      const { payload, tokens, positions, ...head } = entry.delivery;
      return [
        'deliver',
        JSON.stringify(head),
        'payload',
        payload,
        'tokens',
        joinTokens(tokens),
        'positions',
        positions.join(' '),
      ];
    }
    case 'drain':
      return ['drain', joinTokens(entry.tokens)];
    case 'kick':
      return ['kick', entry.token, 'connection', entry.connection];
  }
}

/** Reads the fields of an entry; undefined for a kind that this version does not know. */
export function readEntry(fields: readonly string[]): HandOverEntry | undefined {
  const [kind, first = '', , second = '', , third = '', , fourth = ''] = fields;
  if (kind === 'drain') return { kind, tokens: splitTokens(first) };
  if (kind === 'kick') return { kind, token: first, connection: second };
  if (kind !== 'deliver') return undefined;
  const head = JSON.parse(first) as Omit<HandedOver, 'payload' | 'tokens' | 'positions'>;
  const positions = fourth.split(' ').map(Number);
  return {
    kind,
    delivery: { ...head, payload: second, tokens: splitTokens(third), positions },
  };
}
