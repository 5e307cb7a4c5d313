import type { AppleEnvironment } from '@carillon/store/documents';
import { Notification } from 'node-apn';
import type {
  Address,
  Attempt,
  ProviderChannel,
  ProviderClient,
  ProviderPush,
  Send,
} from '../../deliver/provider.ts';
import { createInFlight } from '../in-flight.ts';
import { type ApnsLine, type ApnsSecret, openLine } from './line.ts';
import { type ApnsAnswer, apnsOutcome } from './outcome.ts';
import { type ApnsMessage, encodeApns } from './payload.ts';

/** More at once on a session makes requests wait for a stream, and costs more than it brings. */
const WINDOW = 200;

/** Apple Push Notification service. */
export const apns: ProviderChannel = {
  window: WINDOW,
  connect(secret) {
    if (secret.kind === 'apns-token' || secret.kind === 'apns-certificate') return connect(secret);
    throw new Error(`a secret of ${secret.kind} is none for APNs`);
  },
};

function connect(secret: ApnsSecret): ProviderClient {
  const lines = new Map<AppleEnvironment, ApnsLine>();
  const inFlight = createInFlight();
  let closed = false;

  function lineTo(environment: AppleEnvironment): ApnsLine {
    const known = lines.get(environment);
    if (known !== undefined) return known;
    const line = openLine(secret, environment);
    lines.set(environment, line);
    return line;
  }

  return {
    lineOf: (address) => (address.channel === 'apns' ? address.environment : 'production'),
    begin(push) {
      const send = beginSend(push, lineTo);
      return async (address) => {
        if (closed) return { kind: 'retry', scope: 'recipient', detail: 'closing', afterMs: 0 };
        return inFlight.track(send(address));
      };
    },
    async close() {
      closed = true;
      await inFlight.idle();
      await Promise.all([...lines.values()].map((line) => line.close()));
      lines.clear();
    },
  };
}

function beginSend(push: ProviderPush, lineTo: (environment: AppleEnvironment) => ApnsLine): Send {
  const message = encodeApns(push, Date.now());
  const detail = 'over 4,096 bytes';
  if (message.tooLarge) {
    return async () => ({ kind: 'rejected', reason: 'payload-too-large', detail });
  }
  const byBundle = new Map<string, Notification>();

  return async (address): Promise<Attempt> => {
    if (address.channel !== 'apns') return notApple(address);
    let notification = byBundle.get(address.bundle);
    if (notification === undefined) {
      notification = notificationOf(message, address.bundle);
      byBundle.set(address.bundle, notification);
    }
    const line = lineTo(address.environment);
    const answer = await line.send(notification, address.address);
    if (!isExpiredToken(answer)) return apnsOutcome(answer);
    // node-apn has signed a new provider token by now; if that one is expired too, it is our clock.
    return apnsOutcome(await line.send(notification, address.address));
  };
}

/** `compiled` is what the library sends: our text, not made anew for each recipient. */
function notificationOf(message: ApnsMessage, topic: string): Notification {
  const { body, pushType, priority, expiry, collapseId } = message;
  const id = collapseId !== undefined && { collapseId };
  return new Notification({ compiled: body, topic, pushType, priority, expiry, ...id });
}

function isExpiredToken(answer: ApnsAnswer): boolean {
  return answer.kind === 'answered' && answer.reason === 'ExpiredProviderToken';
}

function notApple({ channel }: Address): Attempt {
  return { kind: 'rejected', reason: 'no-provider-address', detail: `an address of ${channel}` };
}
