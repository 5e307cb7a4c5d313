import { readFileSync } from 'node:fs';
import { describeError } from '@carillon/admin/admin-error';
import type { AppleCertificateOptions } from '@carillon/admin/credential/apple-certificate';
import type { AppleKeyIds } from '@carillon/admin/credential/apple-token';
import { type ResealResult, resealCredentials } from '@carillon/admin/credential/reseal';
import { saveSandboxCredentials } from '@carillon/admin/credential/sandbox';
import type { ProvidedFile } from '@carillon/admin/credential/verify-file';
import { verifyProvided } from '@carillon/admin/credential/verify-provided';
import type {
  CredentialFile,
  CredentialKeyInput,
  CredentialView,
} from '@carillon/admin/credentials';
import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/channels';
import type { HostOverride } from '@carillon/core/channels/descriptor';
import { parseSealingKeys } from '@carillon/core/sealing';
import { Argument, type Command, Option } from 'commander';
import type { Admin } from './admin/admin.ts';
import { withAdmin } from './admin/with-admin.ts';
import { withStore } from './database.ts';
import { commandFailed, usageError } from './failure.ts';
import { formatCount } from './output.ts';
import { type CommandContext, requireSetting } from './stack.ts';

/** Maximum credentials that an error names. */
const MAX_LISTED = 10;

interface GatewayOptions {
  gateway?: HostOverride;
  gatewayCa?: string;
}

interface CommonOptions extends GatewayOptions, Omit<CredentialKeyInput, 'channel'> {}

interface AppleOptions extends CommonOptions, AppleKeyIds {
  key?: string;
  certificate?: string;
  passphraseFile?: string;
}

interface WebPushCommandOptions {
  app: string;
  contact?: string;
  publicKey?: string;
  privateKeyFile?: string;
  replace?: true;
}

/** Adds `carillon credential …`: credentials of apps for APNs, FCM and the browsers' push services. */
export function addCredentialCommands(program: Command, context: CommandContext): void {
  const credential = program
    .command('credential')
    .description("manage the credentials an app needs to send through its platforms' providers");
  addAppleCommand(credential, context);
  addFirebaseCommand(credential, context);
  addWebPushCommand(credential, context);
  addSandboxCommand(credential, context);
  addResealCommand(credential, context);
  addListCommand(credential, context);
  addRemoveCommand(credential, context);
}

function addAppleCommand(parent: Command, context: CommandContext): void {
  addGatewayOptions(
    addEnvironmentOption(
      parent
        .command('apns')
        .description('set the credential for APNs: a .p8 key with its ids, or a .p12 certificate')
        .requiredOption('--app <id>', 'the app')
        .option('--key <file>', 'the .p8 file')
        .option('--key-id <id>', 'id of the key; read from the file name when absent')
        .option('--team-id <id>', 'id of the team')
        .option('--certificate <file>', 'the .p12 file, or PEM')
        .option('--passphrase-file <file>', 'file that contains the passphrase'),
    ),
  ).action((options: AppleOptions) => saveFile(context, options, readAppleFile(options)));
}

function readAppleFile(options: AppleOptions): ProvidedFile {
  const { key, certificate, keyId, teamId } = options;
  if ((key === undefined) === (certificate === undefined)) {
    throw usageError('Give either --key with a .p8 file or --certificate with a .p12 file.');
  }
  if (key !== undefined) {
    const ids = { ...(keyId !== undefined && { keyId }), ...(teamId !== undefined && { teamId }) };
    return { kind: 'apns-token', file: readCredentialFile(key), ids };
  }
  const file = readCredentialFile(certificate ?? '');
  return { kind: 'apns-certificate', file, options: toCertificateOptions(options) };
}

function toCertificateOptions({
  passphraseFile,
  environment,
}: AppleOptions): AppleCertificateOptions {
  return {
    ...(environment !== undefined && { environment }),
    ...(passphraseFile !== undefined && {
      passphrase: readCredentialFile(passphraseFile).content.toString('utf8').trim(),
    }),
  };
}

function addFirebaseCommand(parent: Command, context: CommandContext): void {
  addGatewayOptions(
    parent
      .command('fcm')
      .description('set the credential for FCM: the key file of a service account')
      .requiredOption('--app <id>', 'the app')
      .requiredOption('--service-account <file>', 'the JSON file'),
  ).action((options: CommonOptions & { serviceAccount: string }) => {
    const file = readCredentialFile(options.serviceAccount);
    return saveFile(context, options, { kind: 'fcm', file });
  });
}

async function saveFile(
  context: CommandContext,
  options: CommonOptions,
  provided: ProvidedFile,
): Promise<void> {
  const file = { provided, verified: verifyProvided(provided) };
  const gateway = readGateway(options);
  await saveAndShow(context, (admin) => admin.saveCredential(options, file, gateway));
}

async function saveAndShow(
  { stack, output }: CommandContext,
  save: (admin: Admin) => Promise<CredentialView>,
): Promise<void> {
  const saved = await withAdmin(stack(), save);
  output.show(saved, formatCredential(saved));
}

function addWebPushCommand(parent: Command, context: CommandContext): void {
  parent
    .command('web-push')
    .description('set the contact of the key pair for Web Push, or the key pair')
    .requiredOption('--app <id>', 'the app')
    .option('--contact <url>', 'mailto: or https: address that push services can contact')
    .option('--private-key-file <file>', 'file that contains the private key of a pair, base64url')
    .option('--public-key <key>', 'public key of the pair, base64url')
    .option(
      '--replace',
      'replace the existing pair: all browsers that subscribed with it must subscribe again',
    )
    .action((options: WebPushCommandOptions) => {
      const { app, privateKeyFile, ...others } = options;
      const privateKey = privateKeyFile !== undefined && {
        privateKey: readCredentialFile(privateKeyFile),
      };
      return saveAndShow(context, (admin) => admin.saveWebPush(app, { ...others, ...privateKey }));
    });
}

function addSandboxCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('sandbox')
    .description(
      "give an app the sandbox's credentials, except where it has one of the real provider",
    )
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: { app: string }) => {
      const target = stack();
      const keys = parseSealingKeys(requireSetting(target, 'sealingKeys'));
      const sandbox = requireSetting(target, 'sandbox');
      const saved = await withStore(target, (store) =>
        saveSandboxCredentials(store, keys, app, sandbox),
      );
      output.show(saved, saved.flatMap(formatCredential));
    });
}

function addResealCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('reseal')
    .description('seal the credentials of all apps again, under the first key of CREDENTIAL_KEYS')
    .action(async () => {
      const target = stack();
      const keys = parseSealingKeys(requireSetting(target, 'sealingKeys'));
      const result = await withStore(target, (store) => resealCredentials(store, keys));
      if (result.failed.length > 0)
        throw commandFailed(describeResealFailure(result), JSON.stringify(result));
      output.show(result, [
        `${formatCount(result.resealed, 'credential')} sealed under key ${result.key}; ${result.unchanged} already were.`,
      ]);
    });
}

function describeResealFailure({ failed, resealed, key }: ResealResult): string {
  const listed = failed.slice(0, MAX_LISTED).join(', ');
  const more = failed.length > MAX_LISTED ? ` and ${failed.length - MAX_LISTED} more` : '';
  return `No key of CREDENTIAL_KEYS opens ${listed}${more}: add the key that sealed them, or set these credentials again. ${formatCount(resealed, 'other')} sealed under key ${key}.`;
}

function addListCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('list')
    .description("list an app's credentials without their secrets")
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: { app: string }) => {
      const views = await withAdmin(stack(), (admin) => admin.listCredentials(app));
      output.show(views, views.flatMap(formatCredential));
    });
}

function addRemoveCommand(parent: Command, { stack, output }: CommandContext): void {
  addEnvironmentOption(
    parent
      .command('remove')
      .description('remove a credential')
      .addArgument(new Argument('<channel>').choices(PROVIDER_CHANNELS))
      .requiredOption('--app <id>', 'the app'),
  ).action(async (channel: ProviderChannelName, options: CommonOptions) => {
    const keyInput = { ...options, channel };
    const removed = await withAdmin(stack(), (admin) => admin.removeCredential(keyInput));
    output.show(removed, [`Credential ${removed.id} removed.`]);
  });
}

function addEnvironmentOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--environment <environment>',
      'only for devices of this APNs environment, when the app has one credential for each',
    ).choices(['development', 'production']),
  );
}

function addGatewayOptions(command: Command): Command {
  return command
    .option(
      '--gateway <host:port>',
      "connect to this address instead of the provider's own",
      parseGateway,
    )
    .option('--gateway-ca <file>', "certificate of the authority that signed the gateway's, PEM");
}

function parseGateway(text: string): HostOverride {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
  if (host !== undefined && port !== undefined) return { host, port: Number(port) };
  throw usageError('--gateway must be host:port.');
}

function readGateway({ gateway, gatewayCa }: GatewayOptions): HostOverride | undefined {
  if (gateway === undefined || gatewayCa === undefined) return gateway;
  return { ...gateway, ca: readCredentialFile(gatewayCa).content.toString('utf8') };
}

function readCredentialFile(path: string): CredentialFile {
  try {
    return { name: path, content: readFileSync(path) };
  } catch (error) {
    throw commandFailed(`The file ${path} can't be read: ${describeError(error)}.`);
  }
}

function formatCredential(view: CredentialView): string[] {
  const { id, app: _app, channel: _channel, refused, warning, ...fields } = view;
  const details = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  return [
    `${id}: ${details.join(', ')}`,
    ...(refused === undefined
      ? []
      : [`  rejected by the provider since ${refused.since}: ${refused.detail}`]),
    ...(warning === undefined ? [] : [`  ${warning}`]),
  ];
}
