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
import { type ApnsLine, type ApnsSecret, type Message, openLine } from './line.ts';
import { apnsOutcome, isExpiredToken } from './outcome.ts';
import { type ApnsMessage, encodeApns } from './payload.ts';

/** Of so many nobody knows the end when a link or a worker is lost, so no more than the round trip asks for. */
const WINDOW = 150;

const CLOSING: Attempt = { kind: 'retry', scope: 'recipient', detail: 'closing', afterMs: 0 };

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
  let closing: Promise<void> | undefined;

  function lineTo(environment: AppleEnvironment): ApnsLine {
    const known = lines.get(environment);
    if (known !== undefined) return known;
    const line = openLine(secret, environment);
    lines.set(environment, line);
    return line;
  }

  async function close(): Promise<void> {
    await inFlight.idle();
    await Promise.all([...lines.values()].map((line) => line.close()));
  }

  return {
    lineOf: (address) => (address.channel === 'apns' ? address.environment : 'production'),
    begin(push) {
      const send = beginSend(push, lineTo);
      return (address) =>
        closing === undefined ? inFlight.track(send(address)) : Promise.resolve(CLOSING);
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

function beginSend(push: ProviderPush, lineTo: (environment: AppleEnvironment) => ApnsLine): Send {
  const message = encodeApns(push, Date.now());
  const detail = 'over 4,096 bytes';
  if (message.tooLarge) {
    return async () => ({ kind: 'rejected', reason: 'payload-too-large', detail });
  }
  const byBundle = new Map<string, Message>();

  function messageTo(bundle: string): Message {
    const known = byBundle.get(bundle);
    if (known !== undefined) return known;
    const made = makeMessage(message, bundle);
    byBundle.set(bundle, made);
    return made;
  }

  return async (address): Promise<Attempt> => {
    if (address.channel !== 'apns') return notApple(address);
    const line = lineTo(address.environment);
    const made = messageTo(address.bundle);
    const token = line.tokenInUse();
    const answer = await line.send(made, address.address);
    if (!isExpiredToken(answer)) return apnsOutcome(answer);
    line.replaceToken(token);
    // If the new one is expired too, it is our clock.
    return apnsOutcome(await line.send(made, address.address));
  };
}

/** `compiled` is what the library sends: our text. */
function makeMessage(message: ApnsMessage, topic: string): Message {
  const { body, pushType, priority, expiry, collapseId } = message;
  const notification = new Notification({
    compiled: body,
    topic,
    pushType,
    priority,
    expiry,
    collapseId,
  }) as Notification & LibraryNotification;
  const headers = Object.entries(notification.headers()).flat().map(String);
  return { headers, body: notification.compile() };
}

/** What its types lack. */
interface LibraryNotification {
  headers(): Record<string, string>;
  compile(): string;
}

function notApple({ channel }: Address): Attempt {
  return { kind: 'rejected', reason: 'no-provider-address', detail: `an address of ${channel}` };
}
