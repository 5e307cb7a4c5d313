import { createConducts } from './answer/conduct.ts';
import { createScripts } from './answer/scripts.ts';
import { namedApns } from './apns/reasons.ts';
import { startApns } from './apns/start.ts';
import { behaviourRoutes } from './control/behaviour-routes.ts';
import { fileRoutes } from './control/file-routes.ts';
import { recordRoutes } from './control/record-routes.ts';
import { createControlServer } from './control/server.ts';
import { webPushRoutes } from './control/web-push-routes.ts';
import { namedFcm } from './fcm/errors.ts';
import { startFcm } from './fcm/start.ts';
import { APPLE, ensureFiles, type Files, type ServiceAccount } from './files/ensure-files.ts';
import { createJournal } from './record/journal.ts';
import { createAutopush } from './web-push/autopush.ts';
import { namedWebPush } from './web-push/server.ts';
import { startWebPush } from './web-push/start.ts';
import type { At } from './wire/tls-server.ts';

export interface SandboxOptions {
  control: At;
  apns: At;
  fcm: At;
  webPush: At;
  /** The folder of its keys and certificates. */
  files: string;
  /** The name by which clients reach it, when that is not the address it listens on. */
  publicHost?: string;
}

/** What clients need to use the sandbox in place of the providers. */
export interface Credentials {
  /** PEM. */
  ca: string;
  apns: At & {
    key: string;
    keyId: string;
    teamId: string;
    certificate: string;
    certificateKey: string;
    /** base64. */
    p12: string;
    passphrase: string;
    bundle: string;
  };
  fcm: At & { serviceAccount: ServiceAccount };
  webPush: At;
}

/** A sandbox that runs. */
export interface Sandbox {
  /** Base URL of the control API. */
  control: string;
  credentials: Credentials;
  stop(): Promise<void>;
}

/** Starts all servers. @throws when one can't listen; then none is left open */
export async function createSandbox(options: SandboxOptions): Promise<Sandbox> {
  const host = options.publicHost ?? reachable(options.control.host);
  const files = await ensureFiles(options.files, host);
  const journal = createJournal();
  const scripts = createScripts();
  const conducts = createConducts();
  const shared = { files, journal, scripts, conducts, host };
  const stops: (() => Promise<void>)[] = [];
  const stop = async () => {
    await Promise.all(stops.map((one) => one()));
  };
  try {
    const apns = await startApns(shared, options.apns);
    stops.push(apns.stop);
    const fcm = await startFcm(shared, options.fcm, options.files);
    stops.push(fcm.stop);
    const webPush = await startWebPush(shared, options.webPush);
    stops.push(webPush.stop);
    const browsers = { subscriptions: webPush.subscriptions, journal, endpoint: webPush.endpoint };
    const credentials: Credentials = {
      ca: files.ca,
      apns: { host, port: apns.port, ...appleCredentials(files) },
      fcm: { host, port: fcm.port, serviceAccount: fcm.serviceAccount },
      webPush: { host, port: webPush.port },
    };
    const named = { apns: namedApns, fcm: namedFcm, 'web-push': namedWebPush };
    const control = createControlServer(
      [
        { method: 'GET', path: /^\/credentials$/, handle: () => credentials },
        ...recordRoutes(journal),
        ...behaviourRoutes({ scripts, conducts, named }),
        ...webPushRoutes(browsers),
        ...fileRoutes(),
      ],
      createAutopush(browsers),
    );
    stops.push(control.stop);
    const port = await control.listen(options.control);
    return { control: `http://${bracketed(host)}:${port}`, credentials, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function appleCredentials(files: Files): Omit<Credentials['apns'], keyof At> {
  const { certificate, key: certificateKey } = files.apnsCertificate;
  const p12 = files.p12.toString('base64');
  return { ...APPLE, key: files.apnsKey, certificate, certificateKey, p12 };
}

/** A server that listens on every address is reached on this one. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
