import { Button, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'

/** Asks for the name of a view. */
export function SaveView(props: { opened: boolean; onClose: () => void; onSave: (name: string) => void }) {
  const { t } = useTranslation('jobs')
  const [name, setName] = useState('')
  return (
    <Modal
      opened={props.opened}
      onClose={props.onClose}
      title={t('save')}
      closeButtonProps={{ 'aria-label': t('shell:close') }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (name.trim()) props.onSave(name.trim())
        }}
      >
        <TextInput
          label={t('viewName')}
          description={t('viewWhere')}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          maxLength={40}
          data-autofocus
        />
        <Button type="submit" mt="md" disabled={!name.trim()}>
          {t('saveView')}
        </Button>
      </form>
    </Modal>
  )
}
