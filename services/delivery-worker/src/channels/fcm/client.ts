import type { SecretOf } from '@carillon/core/channels';
import { fcm as descriptor } from '@carillon/core/channels/fcm';
import { resultWithin } from '@carillon/core/with-timeout';
import type {
  Address,
  Attempt,
  MaySend,
  ProviderChannel,
  ProviderClient,
  ProviderPush,
} from '../../deliver/provider.ts';
import { createInFlight } from '../in-flight.ts';
import { AccessTokenError, createAccessTokens } from './access-token.ts';
import { FCM_ORIGIN, openFirebaseMessaging } from './firebase-messaging.ts';
import { createHttpPool } from './http-pool.ts';
import { type FcmResponse, fcmOutcome, isAccessTokenRejected } from './outcome.ts';
import { encodeFcm, encodeFcmForApple, type FcmMessage, type FcmRequest } from './payload.ts';

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

  async function sendWithFreshToken(request: FcmRequest, maySend: MaySend): Promise<FcmResponse> {
    // Obtained before the clock is read, or a token refused at its first use would count as its own successor.
    const tokenError = await findTokenError();
    if (tokenError !== undefined) return tokenError;
    const startedAt = performance.now();
    const response = await messaging.send(request, maySend);
    if (!isAccessTokenRejected(response)) return response;
    if (!tokens.invalidate(startedAt)) return response;
    // One more attempt with the new token.
    return (await findTokenError()) ?? messaging.send(request, maySend);
  }

  async function close(): Promise<void> {
    await inFlight.idle();
    await messaging.close();
    tokens.close();
    await httpPool.close();
  }

  return {
    // The project's own key for APNs may be missing or wrong, which stops no Android device. Both share the connections.
    upstreamKeyOf: (address) => (isApple(address) ? 'fcm-to-apns' : 'fcm'),
    prepare(push, maySend) {
      const encodeFor = createEncoder(push);
      return async (address): Promise<Attempt> => {
        if (closing !== undefined) return CLOSING;
        const message = encodeFor(address);
        const rejection = rejectUnsendable(message.isTooLarge, address.channel);
        if (rejection !== undefined) return rejection;
        const request = message.createRequest(address.address, Date.now());
        // Limits getting an access token and sending together; each has a deadline of its own.
        const response = resultWithin(
          sendWithFreshToken(request, maySend),
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

/** Encodes a push once for each platform of its recipients. */
function createEncoder(push: ProviderPush): (address: Address) => FcmMessage {
  let forAndroid: FcmMessage | undefined;
  let forApple: FcmMessage | undefined;
  return (address) => {
    if (isApple(address)) {
      forApple ??= encodeFcmForApple(push, Date.now());
      return forApple;
    }
    forAndroid ??= encodeFcm(push);
    return forAndroid;
  };
}

function isApple(address: Address): boolean {
  return address.channel === 'fcm' && address.isApple === true;
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
