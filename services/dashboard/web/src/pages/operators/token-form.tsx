import '@mantine/core/styles/NumberInput.css';
import { NumberInput } from '@mantine/core';
import { useState } from 'react';
import { change } from '../../api/request.ts';
import type { Account } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { ROLES } from '../../lib/roles.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { NameField } from '../../parts/name-field.tsx';
import { AccessFields, isComplete, toAccess, toGrant } from './access-fields.tsx';
import { TOKENS_PATH } from './paths.ts';

/** A program manages no operators. */
const TOKEN_ROLES = ROLES.filter((role) => role !== 'owner');
/** Maximum characters of a name, as the server limits it. */
const MAX_NAME_CHARACTERS = 64;
/** Lifetime in days, as the server limits it. */
const DAYS = { default: 90, max: 366 };

interface TokenFormProps {
  accounts: readonly Account[];
  onClose: () => void;
  onToken: (token: string) => void;
}

/** Creates an operator token. */
export function TokenForm({ accounts, onClose, onToken }: TokenFormProps) {
  const [name, setName] = useState('');
  const [access, setAccess] = useState(() => toAccess({}));
  const [days, setDays] = useState<string | number>(DAYS.default);
  const create = useChange({
    run: () => change('POST', TOKENS_PATH, { name, ...toGrant(access), days: Number(days) }),
    outdated: [[TOKENS_PATH]],
    onDone: ({ token }) => {
      onClose();
      onToken(token);
    },
  });
  return (
    <FormDialog
      title="Create a token"
      action="Create"
      isPending={create.isPending}
      isDisabled={!isComplete(access) || days === ''}
      gap="md"
      onSubmit={create.mutate}
      onClose={onClose}
    >
      <NameField name={name} maxCharacters={MAX_NAME_CHARACTERS} onChange={setName} />
      <AccessFields access={access} roles={TOKEN_ROLES} accounts={accounts} onChange={setAccess} />
      <NumberInput
        label="Lifetime in days"
        min={1}
        max={DAYS.max}
        allowDecimal={false}
        hideControls
        value={days}
        onChange={setDays}
      />
    </FormDialog>
  );
}
