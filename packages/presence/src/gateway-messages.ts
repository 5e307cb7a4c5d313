import { joinTokens, splitTokens } from '@carillon/core/batch';

/** A push as a worker dispatches it. */
export interface Delivery {
  push: string;
  /** Id of the batch; for an embedded batch, of its push. */
  work: string;
  /** The worker's claim on the batch. */
  claim: string;
  /** Time from which it is not sent any more; milliseconds, MongoDB's time. */
  expiresAt: number;
  /** Hash of the collapse key (core/batch). */
  collapse?: string;
  payload: string;
  /** Context of the worker's span (`traceparent`), if the push is traced. */
  trace?: string;
  /** Events of the recipients are reported to webhooks: a late receipt marks the batch. */
  notify?: true;
  /** Set if undelivered recipients get no inbox row: another channel delivers the push too, or its time to live is 0. */
  hasNoRow?: true;
}

/** A delivery as a gateway receives it. */
export interface DispatchedDelivery extends Delivery {
  /** Reply stream of the worker. */
  reply: string;
  /** Time after which it is not written to a socket; milliseconds, Redis's time. */
  deadline: number;
  tokens: string[];
  /** Positions of the recipients in the batch, in the order of `tokens`. */
  positions: number[];
}

/** A message in a gateway's stream. */
export type GatewayMessage =
  | { kind: 'deliver'; delivery: DispatchedDelivery }
  /** Rows of a push were written for these devices. */
  | { kind: 'drain'; tokens: string[]; push: string }
  | { kind: 'kick'; token: string; connection: string };

/** Encodes a message as the fields of a stream entry, for XADD: as many for each message of a kind. */
export function encodeGatewayMessage(message: GatewayMessage): string[] {
  switch (message.kind) {
    case 'deliver': {
      const { payload, tokens, positions, ...header } = message.delivery;
      return [
        'deliver',
        JSON.stringify(header),
        'payload',
        payload,
        'tokens',
        joinTokens(tokens),
        'positions',
        positions.join(' '),
      ];
    }
    case 'drain':
      return ['drain', joinTokens(message.tokens), 'push', message.push];
    case 'kick':
      return ['kick', message.token, 'connection', message.connection];
  }
}

/** Decodes the fields of a stream entry; undefined for a kind that this version does not know. */
export function decodeGatewayMessage(fields: readonly string[]): GatewayMessage | undefined {
  const [kind, first = '', , second = '', , third = '', , fourth = ''] = fields;
  if (kind === 'drain') return { kind, tokens: splitTokens(first), push: second };
  if (kind === 'kick') return { kind, token: first, connection: second };
  if (kind !== 'deliver') return undefined;
  const header = JSON.parse(first) as Omit<DispatchedDelivery, 'payload' | 'tokens' | 'positions'>;
  const positions = fourth.split(' ').map(Number);
  return {
    kind,
    delivery: { ...header, payload: second, tokens: splitTokens(third), positions },
  };
}
