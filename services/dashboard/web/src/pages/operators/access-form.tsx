import { useState } from 'react';
import { change } from '../../api/request.ts';
import type { Account, Operator } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { ROLES } from '../../lib/roles.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { AccessFields, isComplete, toAccess, toGrant } from './access-fields.tsx';
import { LINKS_PATH, TOKENS_PATH } from './paths.ts';

/** Operator whose access the form sets. */
export type AccessTarget = { kind: 'invite' } | { kind: 'change'; operator: Operator };

interface AccessFormProps {
  target: AccessTarget;
  accounts: readonly Account[];
  onClose: () => void;
  /** Is given the link of an invite. */
  onLink: (link: string) => void;
}

/** Sets the role and the accounts of an operator, or of an invite. */
export function AccessForm({ target, accounts, onClose, onLink }: AccessFormProps) {
  const before = target.kind === 'change' ? target.operator : undefined;
  const [access, setAccess] = useState(() => toAccess(before ?? {}));
  const save = useChange({
    run: async () => {
      if (target.kind === 'change') {
        await change('PUT', `/operators/${target.operator.id}`, toGrant(access));
        return undefined;
      }
      return (await change('POST', '/operators/invite', toGrant(access))).link;
    },
    outdated: [['/operators'], [LINKS_PATH], [TOKENS_PATH]],
    onDone: (link) => {
      onClose();
      if (link !== undefined) onLink(link);
    },
  });
  return (
    <FormDialog
      title={before === undefined ? 'Invite an operator' : `Access of ${before.name}`}
      action={before === undefined ? 'Make a link' : 'Store'}
      isPending={save.isPending}
      isDisabled={!isComplete(access)}
      gap="md"
      onSubmit={save.mutate}
      onClose={onClose}
    >
      <AccessFields access={access} roles={ROLES} accounts={accounts} onChange={setAccess} />
    </FormDialog>
  );
}
