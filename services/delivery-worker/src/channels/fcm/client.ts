import type { SecretOf } from '@carillon/core/credentials';
import type { Attempt, ProviderChannel, ProviderClient } from '../../deliver/provider.ts';
import { createInFlight } from '../in-flight.ts';
import { createAccessTokens, NoAccessToken } from './access-token.ts';
import { FCM_ORIGIN, openLibrary } from './library.ts';
import { createLinks } from './links.ts';
import { type FcmAnswer, fcmOutcome, isTokenRefused } from './outcome.ts';
import { encodeFcm, messageFor } from './payload.ts';

/** One request on one HTTP/1.1 link at a time, so as many links. */
const WINDOW = 100;
/** From the message to its answer, getting an access token included. */
const DEADLINE_MS = 10_000;

const CLOSING: Attempt = { kind: 'retry', scope: 'recipient', detail: 'closing', afterMs: 0 };

/** Firebase Cloud Messaging, HTTP v1. */
export const fcm: ProviderChannel = {
  window: WINDOW,
  connect(secret) {
    if (secret.kind === 'fcm') return connect(secret);
    throw new Error(`a secret of ${secret.kind} is none for FCM`);
  },
};

function connect(secret: SecretOf<'fcm'>): ProviderClient {
  const links = createLinks({
    origin: FCM_ORIGIN,
    count: WINDOW,
    deadlineMs: DEADLINE_MS,
    gateway: secret.gateway,
  });
  const tokens = createAccessTokens(secret);
  const library = openLibrary(secret.projectId, tokens, links);
  const inFlight = createInFlight();
  let closing: Promise<void> | undefined;

  type Message = Parameters<typeof library.send>[0];

  /** Why there is no access token; undefined: there is one. */
  async function lackOfToken(): Promise<FcmAnswer | undefined> {
    try {
      await tokens.get();
      return undefined;
    } catch (error) {
      if (error instanceof NoAccessToken) return error.answer;
      throw error;
    }
  }

  async function sendWithFreshToken(message: Message): Promise<FcmAnswer> {
    // Got before the clock is read, or a token that was refused at its first use would pass for its own successor.
    const lack = await lackOfToken();
    if (lack !== undefined) return lack;
    const startedAt = performance.now();
    const answer = await library.send(message);
    if (!isTokenRefused(answer)) return answer;
    tokens.drop(startedAt);
    // The library shares one look at the token among requests; only when there is another it is worth a look.
    return (await lackOfToken()) ?? library.send(message);
  }

  async function close(): Promise<void> {
    await inFlight.idle();
    await library.close();
    tokens.close();
    await links.close();
  }

  return {
    lineOf: () => 'fcm',
    begin(push) {
      const message = encodeFcm(push);
      return async (address): Promise<Attempt> => {
        if (closing !== undefined) return CLOSING;
        const refusal = refuse(message.tooLarge, address.channel);
        if (refusal !== undefined) return refusal;
        const single = messageFor(message, address.address, Date.now());
        return fcmOutcome(await inFlight.track(inTime(sendWithFreshToken(single))));
      };
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

function refuse(tooLarge: boolean, channel: string): Attempt | undefined {
  if (channel !== 'fcm') {
    const detail = `an address of ${channel}`;
    return { kind: 'rejected', reason: 'no-provider-address', detail };
  }
  if (!tooLarge) return undefined;
  return { kind: 'rejected', reason: 'payload-too-large', detail: 'over 4,096 bytes' };
}

/** Getting an access token and sending are each bounded; here both together are. */
function inTime(answer: Promise<FcmAnswer>): Promise<FcmAnswer> {
  return new Promise((resolve, reject) => {
    const deadline = setTimeout(
      () => resolve({ kind: 'lost', detail: 'no answer in time' }),
      DEADLINE_MS,
    );
    answer.finally(() => clearTimeout(deadline)).then(resolve, reject);
  });
}
