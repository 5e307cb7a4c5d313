import { runService } from '@carillon/runtime/service';
import { environment } from './environment.ts';
import { createSandbox } from './sandbox.ts';

await runService('sandbox', environment, async ({ log, release }, env) => {
  const sandbox = await createSandbox({
    control: env.SANDBOX_LISTEN,
    apns: env.SANDBOX_APNS_LISTEN,
    fcm: env.SANDBOX_FCM_LISTEN,
    webPush: env.SANDBOX_WEB_PUSH_LISTEN,
    files: env.SANDBOX_FILES,
    ...(env.SANDBOX_PUBLIC_HOST !== undefined && { publicHost: env.SANDBOX_PUBLIC_HOST }),
    ...(env.SANDBOX_STACK_FILE !== undefined && { stackFile: env.SANDBOX_STACK_FILE }),
  });
  release('sandbox', sandbox.stop);
  log.info({ control: sandbox.control }, 'the sandbox is listening');
});
