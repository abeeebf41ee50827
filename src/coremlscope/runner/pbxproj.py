"""The file `project.pbxproj` of an Xcode project with one app target.

The form is the property list of NeXTSTEP that Xcode writes: objects by id, each with its class (`isa`), that
refer to each other by id. Ids follow from what an object is, so the same project has the same file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PROJECT", "project_file", "scheme_file"]

#: The name of the project, its target, its scheme and its product.
PROJECT = "CoreMLScopeRunner"
_FIRST_IOS = "17.0"
_PLAIN = re.compile(r"[A-Za-z0-9_./]+")
_PROJECT_SETTINGS: Mapping[str, Any] = {
    "ALWAYS_SEARCH_USER_PATHS": "NO",
    "CLANG_ENABLE_MODULES": "YES",
    "IPHONEOS_DEPLOYMENT_TARGET": _FIRST_IOS,
    "SDKROOT": "iphoneos",
    "SWIFT_COMPILATION_MODE": "wholemodule",
    "SWIFT_OPTIMIZATION_LEVEL": "-O",
    "SWIFT_VERSION": "5.0",
}
_TARGET_SETTINGS: Mapping[str, Any] = {
    "CODE_SIGN_STYLE": "Automatic",
    "CURRENT_PROJECT_VERSION": "1",
    "GENERATE_INFOPLIST_FILE": "YES",
    "INFOPLIST_KEY_CFBundleDisplayName": "coremlscope",
    "INFOPLIST_KEY_LSSupportsOpeningDocumentsInPlace": "YES",
    "INFOPLIST_KEY_UIApplicationSceneManifest_Generation": "YES",
    "INFOPLIST_KEY_UIFileSharingEnabled": "YES",
    "INFOPLIST_KEY_UILaunchScreen_Generation": "YES",
    "INFOPLIST_KEY_UISupportedInterfaceOrientations": "UIInterfaceOrientationPortrait",
    "LD_RUNPATH_SEARCH_PATHS": ["$(inherited)", "@executable_path/Frameworks"],
    "MARKETING_VERSION": "1.0",
    "PRODUCT_NAME": "$(TARGET_NAME)",
    "SUPPORTED_PLATFORMS": "iphoneos iphonesimulator",
    "SUPPORTS_MACCATALYST": "NO",
    "TARGETED_DEVICE_FAMILY": "1,2",
}


def project_file(sources: Sequence[str], bundle_id: str, team: str) -> str:
    """Returns the text of `project.pbxproj`.

    Args:
        sources: The names of the Swift files in the folder `Sources`.
        bundle_id: The identifier of the app.
        team: The development team; empty for none.
    """
    objects = _Objects()
    files = [_file(objects, name, lastKnownFileType="sourcecode.swift") for name in sources]
    payload = _file(objects, "Payload", lastKnownFileType="folder")
    product = objects.add(
        "product",
        "PBXFileReference",
        explicitFileType="wrapper.application",
        includeInIndex="0",
        path=f"{PROJECT}.app",
        sourceTree="BUILT_PRODUCTS_DIR",
    )
    products = _group(objects, "Products", [product], name="Products")
    main = _group(objects, "main", [_group(objects, "Sources", files, path="Sources"), payload, products])
    settings = {**_TARGET_SETTINGS, "DEVELOPMENT_TEAM": team, "PRODUCT_BUNDLE_IDENTIFIER": bundle_id}
    target = _target(objects, settings, files, payload, product)
    whole = {
        "archiveVersion": "1",
        "classes": {},
        "objectVersion": "56",
        "objects": objects.by_id,
        "rootObject": _project(objects, main, products, target),
    }
    return f"// !$*UTF8*$!\n{_written(whole)}\n"


@dataclass(slots=True)
class _Objects:
    """The objects of a project, by id."""

    by_id: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, kind: str, /, **values: Any) -> str:
        """Adds an object and returns its id.

        Args:
            name: What distinguishes it from others of its kind.
            kind: Its class.
            **values: Its values; ids of other objects among them.
        """
        id_ = _id(name, kind)
        self.by_id[id_] = {"isa": kind, **values}
        return id_


def _id(name: str, kind: str) -> str:
    return hashlib.sha256(f"{kind} {name}".encode()).hexdigest()[:24].upper()


def _project(objects: _Objects, main: str, products: str, target: str) -> str:
    return objects.add(
        "project",
        "PBXProject",
        attributes={"BuildIndependentTargetsInParallel": "1", "LastUpgradeCheck": "1500"},
        buildConfigurationList=_configurations(objects, "project", _PROJECT_SETTINGS),
        compatibilityVersion="Xcode 14.0",
        developmentRegion="en",
        hasScannedForEncodings="0",
        knownRegions=["en", "Base"],
        mainGroup=main,
        productRefGroup=products,
        projectDirPath="",
        projectRoot="",
        targets=[target],
    )


def _target(
    objects: _Objects, settings: Mapping[str, Any], sources: Sequence[str], payload: str, product: str
) -> str:
    return objects.add(
        "target",
        "PBXNativeTarget",
        buildConfigurationList=_configurations(objects, "target", settings),
        buildPhases=[
            _phase(objects, "PBXSourcesBuildPhase", sources),
            _phase(objects, "PBXFrameworksBuildPhase", []),
            _phase(objects, "PBXResourcesBuildPhase", [payload]),
        ],
        buildRules=[],
        dependencies=[],
        name=PROJECT,
        productName=PROJECT,
        productReference=product,
        productType="com.apple.product-type.application",
    )


def _file(objects: _Objects, name: str, **values: str) -> str:
    return objects.add(name, "PBXFileReference", path=name, sourceTree="<group>", **values)


def _group(objects: _Objects, id_: str, children: Sequence[str], **values: str) -> str:
    return objects.add(id_, "PBXGroup", children=list(children), sourceTree="<group>", **values)


def _phase(objects: _Objects, kind: str, files: Sequence[str]) -> str:
    entries = [objects.add(file, "PBXBuildFile", fileRef=file) for file in files]
    return objects.add(
        kind, kind, buildActionMask="2147483647", files=entries, runOnlyForDeploymentPostprocessing="0"
    )


def _configurations(objects: _Objects, of: str, settings: Mapping[str, Any]) -> str:
    release = objects.add(
        f"{of} Release", "XCBuildConfiguration", buildSettings=dict(settings), name="Release"
    )
    return objects.add(
        of,
        "XCConfigurationList",
        buildConfigurations=[release],
        defaultConfigurationIsVisible="0",
        defaultConfigurationName="Release",
    )


def _written(value: Any, depth: int = 0) -> str:
    """A value of a property list."""
    inner, outer = "\t" * (depth + 1), "\t" * depth
    if isinstance(value, Mapping):
        lines = [f"{inner}{_text(key)} = {_written(one, depth + 1)};\n" for key, one in value.items()]
        return "{\n" + "".join(lines) + outer + "}"
    if isinstance(value, list):
        lines = [f"{inner}{_written(one, depth + 1)},\n" for one in value]
        return "(\n" + "".join(lines) + outer + ")"
    return _text(str(value))


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def scheme_file() -> str:
    """Returns the text of the shared scheme, which builds, runs and archives the app in Release."""
    reference = f"""<BuildableReference
               BuildableIdentifier = "primary"
               BlueprintIdentifier = "{_id("target", "PBXNativeTarget")}"
               BuildableName = "{PROJECT}.app"
               BlueprintName = "{PROJECT}"
               ReferencedContainer = "container:{PROJECT}.xcodeproj">
            </BuildableReference>"""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Scheme LastUpgradeVersion = "1500" version = "1.7">
   <BuildAction parallelizeBuildables = "YES" buildImplicitDependencies = "YES">
      <BuildActionEntries>
         <BuildActionEntry buildForTesting = "NO" buildForRunning = "YES" buildForProfiling = "YES"
               buildForArchiving = "YES" buildForAnalyzing = "YES">
            {reference}
         </BuildActionEntry>
      </BuildActionEntries>
   </BuildAction>
   <LaunchAction buildConfiguration = "Release" selectedDebuggerIdentifier = "" selectedLauncherIdentifier =
         "Xcode.IDEFoundation.Launcher.PosixSpawn" launchStyle = "0" useCustomWorkingDirectory = "NO">
      <BuildableProductRunnable runnableDebuggingMode = "0">
            {reference}
      </BuildableProductRunnable>
   </LaunchAction>
   <ProfileAction buildConfiguration = "Release" shouldUseLaunchSchemeArgsEnv = "YES">
      <BuildableProductRunnable runnableDebuggingMode = "0">
            {reference}
      </BuildableProductRunnable>
   </ProfileAction>
   <ArchiveAction buildConfiguration = "Release" revealArchiveInOrganizer = "YES">
   </ArchiveAction>
</Scheme>
"""
