"""The kubelet's protocols as facts: messages, numbers of fields, calls.

Source: pkg/apis/*/api.proto of k8s.io/kubelet 0.36.3; tests/kubernetes/test_wire.py compares the
tables with them.

A message a line: its name, then `field=number:type`. Types are protobuf's; `T*` is repeated, `T?`
optional, `<T>` a map from string to T. A call a line: `Service/Call Request Answer`, where
`Answer*` is a stream.
"""

DEVICE_PLUGIN = (
    "v1beta1",
    """
    DevicePluginOptions pre_start_required=1:bool get_preferred_allocation_available=2:bool
    RegisterRequest version=1:string endpoint=2:string resource_name=3:string options=4:DevicePluginOptions
    Empty
    ListAndWatchResponse devices=1:Device*
    TopologyInfo nodes=1:NUMANode*
    NUMANode ID=1:int64
    Device ID=1:string health=2:string topology=3:TopologyInfo
    PreStartContainerRequest devices_ids=1:string*
    PreStartContainerResponse
    PreferredAllocationRequest container_requests=1:ContainerPreferredAllocationRequest*
    ContainerPreferredAllocationRequest available_deviceIDs=1:string* must_include_deviceIDs=2:string* \
allocation_size=3:int32
    PreferredAllocationResponse container_responses=1:ContainerPreferredAllocationResponse*
    ContainerPreferredAllocationResponse deviceIDs=1:string*
    AllocateRequest container_requests=1:ContainerAllocateRequest*
    ContainerAllocateRequest devices_ids=1:string*
    CDIDevice name=1:string
    AllocateResponse container_responses=1:ContainerAllocateResponse*
    ContainerAllocateResponse envs=1:<string> mounts=2:Mount* devices=3:DeviceSpec* annotations=4:<string> \
cdi_devices=5:CDIDevice*
    Mount container_path=1:string host_path=2:string read_only=3:bool
    DeviceSpec container_path=1:string host_path=2:string permissions=3:string
    """,
    """
    Registration/Register RegisterRequest Empty
    DevicePlugin/GetDevicePluginOptions Empty DevicePluginOptions
    DevicePlugin/ListAndWatch Empty ListAndWatchResponse*
    DevicePlugin/GetPreferredAllocation PreferredAllocationRequest PreferredAllocationResponse
    DevicePlugin/Allocate AllocateRequest AllocateResponse
    DevicePlugin/PreStartContainer PreStartContainerRequest PreStartContainerResponse
    """,
)

POD_RESOURCES = (
    "v1",
    """
    AllocatableResourcesRequest
    AllocatableResourcesResponse devices=1:ContainerDevices* cpu_ids=2:int64* memory=3:ContainerMemory*
    ListPodResourcesRequest
    ListPodResourcesResponse pod_resources=1:PodResources*
    PodResources name=1:string namespace=2:string containers=3:ContainerResources*
    ContainerResources name=1:string devices=2:ContainerDevices* cpu_ids=3:int64* memory=4:ContainerMemory* \
dynamic_resources=5:DynamicResource*
    ContainerMemory memory_type=1:string size=2:uint64 topology=3:TopologyInfo
    ContainerDevices resource_name=1:string device_ids=2:string* topology=3:TopologyInfo
    TopologyInfo nodes=1:NUMANode*
    NUMANode ID=1:int64
    DynamicResource claim_name=2:string claim_namespace=3:string claim_resources=4:ClaimResource*
    ClaimResource cdi_devices=1:CDIDevice* driver_name=2:string pool_name=3:string device_name=4:string \
share_id=5:string?
    CDIDevice name=1:string
    GetPodResourcesRequest pod_name=1:string pod_namespace=2:string
    GetPodResourcesResponse pod_resources=1:PodResources
    """,
    """
    PodResourcesLister/List ListPodResourcesRequest ListPodResourcesResponse
    PodResourcesLister/GetAllocatableResources AllocatableResourcesRequest AllocatableResourcesResponse
    PodResourcesLister/Get GetPodResourcesRequest GetPodResourcesResponse
    """,
)

PLUGIN_REGISTRATION = (
    "pluginregistration",
    """
    PluginInfo type=1:string name=2:string endpoint=3:string supported_versions=4:string*
    RegistrationStatus plugin_registered=1:bool error=2:string
    RegistrationStatusResponse
    InfoRequest
    """,
    """
    Registration/GetInfo InfoRequest PluginInfo
    Registration/NotifyRegistrationStatus RegistrationStatus RegistrationStatusResponse
    """,
)

RESOURCE_ALLOCATION = (
    "k8s.io.kubelet.pkg.apis.dra.v1",
    """
    NodePrepareResourcesRequest claims=1:Claim*
    NodePrepareResourcesResponse claims=1:<NodePrepareResourceResponse>
    NodePrepareResourceResponse devices=1:Device* error=2:string
    Device request_names=1:string* pool_name=2:string device_name=3:string cdi_device_ids=4:string* share_id=5:string?
    NodeUnprepareResourcesRequest claims=1:Claim*
    NodeUnprepareResourcesResponse claims=1:<NodeUnprepareResourceResponse>
    NodeUnprepareResourceResponse error=1:string
    Claim namespace=1:string uid=2:string name=3:string
    """,
    """
    DRAPlugin/NodePrepareResources NodePrepareResourcesRequest NodePrepareResourcesResponse
    DRAPlugin/NodeUnprepareResources NodeUnprepareResourcesRequest NodeUnprepareResourcesResponse
    """,
)
