// Make a network with its first subnet.
import { TextInput } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { send } from '../../api/lists'
import { FormDialog } from '../../ui/FormDialog'
import type { Network } from './networks'

export function NetworkDialog(props: { onDone: (made: Network) => void; onClose: () => void }) {
  const { t } = useTranslation('networks')
  const [name, setName] = useState('')
  const [cidr, setCidr] = useState('10.0.0.0/24')
  const [cidr6, setCidr6] = useState('')
  const act = () =>
    send<Network>('POST', '/api/v1/networks', {
      name: name.trim(),
      subnets: [{ cidr: cidr.trim(), cidr6: cidr6.trim() || null }],
    })
  return (
    <FormDialog
      title={t('newNetwork')}
      confirm={t('createNetwork')}
      isReady={name.trim() !== '' && cidr.trim() !== ''}
      fieldOfCode={{ 'GP-1003': 'name', 'GP-2006': 'name', 'GP-1060': 'cidr', 'GP-2080': 'cidr' }}
      act={act}
      onDone={props.onDone}
      onClose={props.onClose}
    >
      {(problem) => (
        <>
          <p className="small sub">{t('networkText')}</p>
          <TextInput
            label={t('name')}
            value={name}
            data-autofocus
            error={problem('name')}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <TextInput
            label={t('cidr')}
            description={t('cidrHint')}
            value={cidr}
            error={problem('cidr')}
            onChange={(event) => setCidr(event.currentTarget.value)}
          />
          <TextInput
            label={t('cidr6')}
            value={cidr6}
            placeholder="fd00:7::/64"
            error={problem('cidr6')}
            onChange={(event) => setCidr6(event.currentTarget.value)}
          />
        </>
      )}
    </FormDialog>
  )
}
