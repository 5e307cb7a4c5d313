import { isAbsolute, relative } from 'node:path';
import { type BootstrapConfig, formatUrl } from './bootstrap-config.ts';
import type { RunningStack } from './stack.ts';

/** Formats the text that is printed once the stack is ready. Every command in it works as printed. */
export function formatBanner(config: BootstrapConfig, running: RunningStack): string {
  const seconds = ((Date.now() - config.startedAt) / 1000).toFixed(1);
  const lines = [
    '',
    `Carillon ${config.version} is running (started in ${seconds} s).`,
    '',
    `  API      ${running.api}`,
    `  API key  ${running.apiKey}`,
    `  App      ${running.app}`,
    ...(running.console === undefined ? [] : [`  Console  ${running.console}`]),
    ...(running.setup === undefined
      ? []
      : [`  Set-up   ${running.setup} creates the first operator, once, for an hour`]),
    ...sandboxLines(running),
    `  Data     ${config.home}`,
    `  Servers  ${formatServers(config)}`,
    ...inspectorLine(config),
    ...(config.reload
      ? ['  Reload   a changed source file restarts the services that run it']
      : []),
    '',
    ...formatExamples(config, running),
    'Stop it with Ctrl-C.',
    '',
  ];
  return lines.join('\n');
}

/** Formats the lines about the sandbox and its page that receives pushes in a browser. */
function sandboxLines({ sandbox, api, app }: RunningStack): string[] {
  if (sandbox === undefined) return [];
  return [
    `  Sandbox  ${sandbox} simulates APNs, FCM and a Web Push service`,
    `  Demo     ${sandbox}/demo/?api=${encodeURIComponent(api)}&app=${app}`,
  ];
}

function inspectorLine({ inspect, privateHost }: BootstrapConfig): string[] {
  if (inspect === undefined) return [];
  const { host } = new URL(formatUrl('http', privateHost, inspect.port));
  return [`  Inspect  ${inspect.service} at ${host}, for any debugger of Node (chrome://inspect)`];
}

function formatServers({ redis, mongod }: BootstrapConfig): string {
  const redisLine = redis === undefined ? 'Redis of REDIS_URL' : `Redis ${redis.version}`;
  const mongoLine = mongod === undefined ? 'MongoDB of MONGODB_URI' : `MongoDB ${mongod.version}`;
  return `${redisLine}, ${mongoLine}`;
}

function formatExamples(config: BootstrapConfig, { api, apiKey, device }: RunningStack): string[] {
  if (device === undefined) return [];
  if (device.token === undefined) {
    return [`The simulated device is not connected yet; see ${device.logPath}.`, ''];
  }
  const lastPushPath = quoteForShell(shortenPath(config, `${config.home}/last-push.json`));
  const body = JSON.stringify({ to: device.token, data: { message: 'Hello from Carillon' } });
  const id = `$(sed 's/.*"id": *"\\([^"]*\\)".*/\\1/' ${lastPushPath})`;
  return [
    `Try it in a second terminal, in ${config.root}:`,
    '',
    '  # send a push to the simulated device',
    `  curl -s -H 'Content-Type: application/json' -d ${quoteForShell(body)} ${quoteForShell(`${api}/push?api_key=${apiKey}`)} | tee ${lastPushPath}`,
    '',
    '  # watch it arrive (the last three pushes, then new ones)',
    `  tail -n 3 -f ${quoteForShell(shortenPath(config, device.logPath))}`,
    '',
    '  # read its status',
    `  curl -s "${api}/pushes/${id}?api_key=${apiKey}"`,
    '',
  ];
}

function shortenPath({ root }: BootstrapConfig, path: string): string {
  const relativePath = relative(root, path);
  return relativePath.startsWith('..') || isAbsolute(relativePath) ? path : relativePath;
}

function quoteForShell(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
