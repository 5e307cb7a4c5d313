import type { SecretOf } from '@carillon/core/channels';
import { fcm as descriptor } from '@carillon/core/channels/fcm';
import { resultWithin } from '@carillon/core/with-timeout';
import type { Attempt, MaySend, ProviderChannel, ProviderClient } from '../../deliver/provider.ts';
import { createInFlight } from '../in-flight.ts';
import { AccessTokenError, createAccessTokens } from './access-token.ts';
import { FCM_ORIGIN, openFirebaseMessaging } from './firebase-messaging.ts';
import { createHttpPool } from './http-pool.ts';
import { type FcmResponse, fcmOutcome, isAccessTokenRejected } from './outcome.ts';
import { createTokenMessage, encodeFcm } from './payload.ts';

/**
 * Deadline of a message, from its start to its response, getting an access token included. A shorter one would
 * duplicate messages: FCM accepts some after more than ten seconds, for which Google's SDK waits fifteen too.
 */
export const DEADLINE_MS = 15_000;

const NO_RESPONSE: FcmResponse = { kind: 'timeout', detail: 'no response in time' };
const CLOSING: Attempt = { kind: 'retry', scope: 'connection', detail: 'closing' };

/** Firebase Cloud Messaging, HTTP v1. */
export const fcm: ProviderChannel = {
  window: descriptor.provider.window,
  connect(secret) {
    if (secret.kind === 'fcm') return connect(secret);
    throw new Error(`a secret of ${secret.kind} is not for FCM`);
  },
};

function connect(secret: SecretOf<'fcm'>): ProviderClient {
  const httpPool = createHttpPool({
    origin: FCM_ORIGIN,
    maxConnections: descriptor.provider.window,
    deadlineMs: DEADLINE_MS,
    gateway: secret.gateway,
  });
  const tokens = createAccessTokens(secret);
  const messaging = openFirebaseMessaging(secret.projectId, tokens, httpPool);
  const inFlight = createInFlight();
  let closing: Promise<void> | undefined;

  type Message = Parameters<typeof messaging.send>[0];

  /**
   * Gets an access token.
   *
   * @returns the failure; undefined if there is a token
   */
  async function findTokenError(): Promise<FcmResponse | undefined> {
    try {
      await tokens.get();
      return undefined;
    } catch (error) {
      if (error instanceof AccessTokenError) return error.response;
      throw error;
    }
  }

  async function sendWithFreshToken(message: Message, maySend: MaySend): Promise<FcmResponse> {
    // Obtained before the clock is read, or a token refused at its first use would count as its own successor.
    const tokenError = await findTokenError();
    if (tokenError !== undefined) return tokenError;
    const startedAt = performance.now();
    const response = await messaging.send(message, maySend);
    if (!isAccessTokenRejected(response)) return response;
    if (!tokens.invalidate(startedAt)) return response;
    // One more attempt with the new token.
    return (await findTokenError()) ?? messaging.send(message, maySend);
  }

  async function close(): Promise<void> {
    await inFlight.idle();
    await messaging.close();
    tokens.close();
    await httpPool.close();
  }

  return {
    upstreamKeyOf: () => 'fcm',
    prepare(push, maySend) {
      const message = encodeFcm(push);
      return async (address): Promise<Attempt> => {
        if (closing !== undefined) return CLOSING;
        const rejection = rejectUnsendable(message.isTooLarge, address.channel);
        if (rejection !== undefined) return rejection;
        const tokenMessage = createTokenMessage(message, address.address, Date.now());
        // Limits getting an access token and sending together; each has a deadline of its own.
        const response = resultWithin(
          sendWithFreshToken(tokenMessage, maySend),
          DEADLINE_MS,
          NO_RESPONSE,
        );
        return fcmOutcome(await inFlight.track(response));
      };
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

function rejectUnsendable(isTooLarge: boolean, channel: string): Attempt | undefined {
  if (channel !== 'fcm') {
    const detail = `an address of ${channel}`;
    return { kind: 'rejected', reason: 'no-provider-address', detail, isUnsent: true };
  }
  if (!isTooLarge) return undefined;
  const detail = 'over 4,096 bytes';
  return { kind: 'rejected', reason: 'payload-too-large', detail, isUnsent: true };
}
