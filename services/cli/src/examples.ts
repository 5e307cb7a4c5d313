import type { Command } from 'commander';

/**
 * An example of each command, without `carillon` and the command itself: arguments and options. Words in capitals stand
 * for ids; the test that runs all examples replaces them.
 */
const EXAMPLES: Readonly<Record<string, string>> = {
  migrate: '--wait 2m',
  prepare: '--existing APP',
  'account create': "'Example Ltd' --plan pro",
  'account list': '--limit 10',
  'account limit': 'ACCOUNT 6000',
  'account suspend': 'ACCOUNT',
  'account resume': 'ACCOUNT',
  'app create': "'Shop for iOS' --account ACCOUNT",
  'app show': 'APP',
  'app list': '--account ACCOUNT',
  'app pause': 'APP',
  'app resume': 'APP',
  'app set': 'APP --registration closed --fcm-fallback 30s',
  'key create': '--app APP',
  'key list': '--app APP',
  'key revoke': 'KEY --app APP',
  'webhook add': '--app APP --url https://example.com/events --events push.finished',
  'webhook edit': 'WEBHOOK --app APP --url https://example.com/pushes',
  'webhook list': '--app APP',
  'webhook rotate': 'WEBHOOK --app APP',
  'webhook test': 'WEBHOOK --app APP',
  'webhook deliveries': 'WEBHOOK --app APP',
  'webhook resend': 'WEBHOOK REQUEST --app APP',
  'webhook replay': 'WEBHOOK --app APP --from 2026-01-31T18:00:00Z --to 2026-01-31T19:00:00Z',
  'webhook off': 'WEBHOOK --app APP',
  'webhook on': 'WEBHOOK --app APP',
  'webhook remove': 'WEBHOOK --app APP',
  'credential apns': '--app APP --key AuthKey_ABCDE12345.p8 --team-id TEAM123456',
  'credential fcm': '--app APP --service-account service-account.json',
  'credential web-push': '--app APP --contact mailto:push@your-company.com',
  'credential sandbox': '--app APP',
  'credential reseal': '',
  'credential list': '--app APP',
  'credential remove': 'web-push --app APP',
  'operator invite': '--role operator --account ACCOUNT',
  'operator password': 'OPERATOR',
  'operator set-up': '',
  'operator list': '',
  'operator links': '',
  'operator revoke-link': 'LINK',
  'operator disable': 'OPERATOR',
  'operator enable': 'OPERATOR',
  'operator token create': 'deploy --role admin --account ACCOUNT --expires 30d',
  'operator token list': '',
  'operator token revoke': 'OPERATOR_TOKEN',
  'device show': 'TOKEN',
  'device list': '--app APP --limit 10',
  'device pushes': 'TOKEN',
  'device delete': 'TOKEN',
  'device erase': 'TOKEN --now',
  'device prune': '--app APP --not-seen-since 90d --dry-run',
  'topic list': '--app APP',
  'topic show': 'TOPIC --app APP',
  'push send': `--topic TOPIC --data '{"message":"Hello"}' --ttl 1h`,
  'push status': 'PUSH',
  'push delete': 'PUSH',
  'push list': '--app APP --state open --topic TOPIC --since 1h',
  'push outcomes': 'PUSH',
  'failures list': '--app APP --channel apns --from 1h',
  'failures redrive': '--app APP --reason wrong-credential --from 1d',
  queues: '',
  export: 'devices --output devices.ndjson',
  import: 'fcm-tokens.csv --app APP --source fcm --check',
  simulate: '--app APP --devices 3 --seconds 2',
  canary: '--once --app APP --state canary.json',
  doctor: '',
};

/** Adds its example to the help of each command. */
export function addExamples(program: Command): void {
  for (const { path, command } of listCommands(program)) {
    const example = EXAMPLES[path];
    if (example === undefined) continue;
    command.addHelpText('after', `\nExample:\n  ${`carillon ${path} ${example}`.trimEnd()}`);
  }
}

/** Lists the commands that do something, each with its words: `push send`. */
export function listCommands(parent: Command, before = ''): { path: string; command: Command }[] {
  return parent.commands.flatMap((command) => {
    const path = `${before}${command.name()}`;
    return command.commands.length > 0 ? listCommands(command, `${path} `) : [{ path, command }];
  });
}
