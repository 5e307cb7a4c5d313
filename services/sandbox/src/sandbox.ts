import { findCannedApnsResponse } from './apns/reasons.ts';
import { startApns } from './apns/start.ts';
import { createFaultRoutes } from './control/fault-routes.ts';
import { createFileRoutes } from './control/file-routes.ts';
import { createRequestLogRoutes } from './control/request-log-routes.ts';
import { createControlServer } from './control/server.ts';
import { createWebPushRoutes } from './control/web-push-routes.ts';
import { findCannedFcmResponse } from './fcm/errors.ts';
import { startFcm } from './fcm/start.ts';
import {
  APPLE_CREDENTIALS,
  ensureFiles,
  type SandboxFiles,
  type ServiceAccount,
} from './files/ensure-files.ts';
import { createRequestLog } from './request-log/request-log.ts';
import { createFaultConfigs } from './response/fault-config.ts';
import { createScripts } from './response/scripts.ts';
import type { TcpAddress } from './transport/tls-server.ts';
import { createAutopush } from './web-push/autopush.ts';
import { findCannedWebPushResponse } from './web-push/serve-web-push.ts';
import { startWebPush } from './web-push/start.ts';

export interface SandboxOptions {
  control: TcpAddress;
  apns: TcpAddress;
  fcm: TcpAddress;
  webPush: TcpAddress;
  /** Folder of its keys and certificates. */
  files: string;
  /** Host name that clients use, if it differs from the control address. */
  publicHost?: string;
  /** Path of the stack's `dev.json`. */
  stackFile?: string;
}

/** Addresses and credentials for clients that use the sandbox instead of the providers. */
export interface Credentials {
  /** PEM. */
  ca: string;
  apns: TcpAddress & {
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
  fcm: TcpAddress & { serviceAccount: ServiceAccount };
  webPush: TcpAddress;
}

/** A running sandbox. */
export interface Sandbox {
  /** Base URL of the control API. */
  control: string;
  credentials: Credentials;
  stop(): Promise<void>;
}

/** Starts all servers. @throws when one can't listen; the others are then closed */
export async function createSandbox(options: SandboxOptions): Promise<Sandbox> {
  const host = options.publicHost ?? toReachableHost(options.control.host);
  const files = await ensureFiles(options.files, host);
  const requestLog = createRequestLog();
  const scripts = createScripts();
  const faultConfigs = createFaultConfigs();
  const providerContext = { files, requestLog, scripts, faultConfigs, host };
  const stopFunctions: (() => Promise<void>)[] = [];
  const stop = async () => {
    await Promise.all(stopFunctions.map((one) => one()));
  };
  try {
    const apns = await startApns(providerContext, options.apns);
    stopFunctions.push(apns.stop);
    const fcm = await startFcm(providerContext, options.fcm, options.files);
    stopFunctions.push(fcm.stop);
    const webPush = await startWebPush(providerContext, options.webPush);
    stopFunctions.push(webPush.stop);
    const browserPushService = {
      subscriptions: webPush.subscriptions,
      requestLog,
      createEndpoint: webPush.createEndpoint,
    };
    const credentials: Credentials = {
      ca: files.ca,
      apns: { host, port: apns.port, ...appleCredentials(files) },
      fcm: { host, port: fcm.port, serviceAccount: fcm.serviceAccount },
      webPush: { host, port: webPush.port },
    };
    const cannedResponses = {
      apns: findCannedApnsResponse,
      fcm: findCannedFcmResponse,
      'web-push': findCannedWebPushResponse,
    };
    const control = createControlServer(
      [
        { method: 'GET', path: /^\/credentials$/, handle: () => credentials },
        ...createRequestLogRoutes(requestLog),
        ...createFaultRoutes({ scripts, faultConfigs, cannedResponses }),
        ...createWebPushRoutes(browserPushService),
        ...createFileRoutes(options.stackFile),
      ],
      createAutopush(browserPushService),
      [host, options.control.host],
    );
    stopFunctions.push(control.stop);
    const port = await control.listen(options.control);
    return { control: `http://${formatUrlHost(host)}:${port}`, credentials, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function appleCredentials(files: SandboxFiles): Omit<Credentials['apns'], keyof TcpAddress> {
  const { certificate, key: certificateKey } = files.apnsCertificate;
  const p12 = files.p12.toString('base64');
  return { ...APPLE_CREDENTIALS, key: files.apnsKey, certificate, certificateKey, p12 };
}

/** Replaces a wildcard address by the loopback address. */
function toReachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

function formatUrlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
