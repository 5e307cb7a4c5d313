import { useNavigate } from '@tanstack/react-router';
import { change } from '../../api/request.ts';
import type { PushHead } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { formatCount } from '../../lib/times.ts';
import { ConfirmButton } from '../../parts/confirm-button.tsx';
import { useMay } from '../../shell/session.ts';

/** Shows what an operator can do with a push. */
export function PushActions({ push }: { push: PushHead }) {
  const navigate = useNavigate();
  const path = `/pushes/${push.id}` as const;
  const sendAgain = useChange({
    run: () => change('POST', `${path}/send-again`),
    done: 'The push is sent once more. This is the new one.',
    onDone: ({ id }) => void navigate({ to: '/pushes/$push', params: { push: id } }),
  });
  const remove = useChange({
    run: () => change('POST', `${path}/delete`),
    outdated: [[path]],
    done: 'The push is deleted.',
  });
  if (!useMay('operator')) return null;
  return (
    <>
      <ConfirmButton
        label="Send again"
        isPending={sendAgain.isPending}
        confirmation={{
          title: 'Send this push once more?',
          text: `A new push with the same content goes to the same recipients (${formatCount(push.devices)} devices at the time), also to those that got it.`,
          action: 'Send once more',
          isDangerous: false,
          onConfirm: () => sendAgain.mutate(),
        }}
      />
      {push.state !== 'deleted' && (
        <ConfirmButton
          label="Delete"
          isPending={remove.isPending}
          confirmation={{
            title: 'Delete this push?',
            text: 'Devices that have not received it yet will not receive it. Devices that have it keep it.',
            action: 'Delete',
            onConfirm: () => remove.mutate(),
          }}
        />
      )}
    </>
  );
}
